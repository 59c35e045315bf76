// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/recorder.h"

#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <stdlib.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/files.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/observe/profile/operator_work.h"

namespace roofbench::observe {
namespace {

using libkineto::ActivityType;
using torch::autograd::profiler::KinetoEvent;

std::optional<EventKind> KindOf(const KinetoEvent& event) {
  switch (static_cast<ActivityType>(event.activityType())) {
    case ActivityType::CPU_OP:
      return EventKind::kOperator;
    case ActivityType::USER_ANNOTATION:
      return EventKind::kRange;
    case ActivityType::GPU_MEMCPY:
    case ActivityType::GPU_MEMSET:
    case ActivityType::CONCURRENT_KERNEL:
      return EventKind::kDeviceKernel;
    default:
      return std::nullopt;
  }
}

// The launch configuration in Kineto's JSON metadata.
std::string LaunchOf(const std::string& metadata) {
  const absl::StatusOr<nlohmann::json> facts = ParseJsonObject(absl::StrCat("{", metadata, "}"), 4);
  if (!facts.ok()) return "";
  std::vector<std::string> parts;
  for (const char* key : {"grid", "block"}) {
    const auto found = facts->find(key);
    if (found == facts->end() || !found->is_array()) continue;
    std::vector<std::string> extents;
    for (const nlohmann::json& extent : *found) extents.push_back(extent.dump());
    parts.push_back(absl::StrCat(key, " ", absl::StrJoin(extents, "x")));
  }
  return absl::StrJoin(parts, " ");
}

std::string ShapesOf(const KinetoEvent& event) {
  std::vector<std::string> shapes;
  for (const std::vector<int64_t>& shape : event.shapes()) {
    if (!shape.empty()) shapes.push_back(absl::StrCat("[", absl::StrJoin(shape, ", "), "]"));
  }
  return absl::StrJoin(shapes, " ");
}

}  // namespace

std::optional<ProfiledEvent> ReadKinetoEvent(const KinetoEvent& event) {
  const std::optional<EventKind> kind = KindOf(event);
  if (!kind) return std::nullopt;
  ProfiledEvent read{.name = event.name(),
                     .kind = *kind,
                     .thread = event.startThreadId(),
                     .start_ns = static_cast<int64_t>(event.startNs()),
                     .end_ns = static_cast<int64_t>(event.endNs()),
                     .sequence = event.sequenceNr(),
                     .backward = event.fwdThreadId() != 0,  // the scope is the same for all functions
                     .correlation = event.correlationId()};
  if (*kind == EventKind::kDeviceKernel) {
    read.thread = static_cast<uint64_t>(event.deviceResourceId());
    read.correlation = event.linkedCorrelationId();
    read.launch = LaunchOf(event.metadataJson());
  }
  if (*kind == EventKind::kOperator) {
    const std::vector<std::vector<int64_t>> shapes = event.shapes().vec();
    read.shapes = ShapesOf(event);
    read.flops = OperatorFlops(read.name, shapes, static_cast<double>(event.flops()));
    read.input_bytes = OperatorInputBytes(shapes, event.dtypes().vec());
  }
  return read;
}

namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::set<torch::profiler::impl::ActivityType> Activities(bool on_gpu) {
  std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CPU};
  if (on_gpu) activities.insert(torch::profiler::impl::ActivityType::CUDA);
  return activities;
}

ProfilerConfig Config() {
  return ProfilerConfig(ProfilerState::KINETO, /*report_input_shapes=*/true, /*profile_memory=*/false,
                        /*with_stack=*/false, /*with_flops=*/true);
}

}  // namespace

struct Recorder::State {
  std::optional<RecordedRanges> ranges;
  std::unique_ptr<kineto::ProfilerResult> result;
  std::vector<ProfiledEvent> events;

  void Stop() {
    if (!ranges) return;
    ranges.reset();
    result = kineto::disableProfiler();
  }
};

Recorder::Recorder(bool on_gpu) : state_(std::make_unique<State>()) {
  // Silences Kineto's progress messages on standard error, unless the user has set a level.
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  const auto activities = Activities(on_gpu);
  kineto::prepareProfiler(Config(), activities);
  kineto::enableProfiler(Config(), activities);
  state_->ranges.emplace();
}

Recorder::~Recorder() { state_->Stop(); }

const std::vector<ProfiledEvent>& Recorder::Finish() {
  if (!state_->ranges) return state_->events;
  state_->Stop();
  for (const kineto::KinetoEvent& event : state_->result->events()) {
    if (std::optional<ProfiledEvent> read = ReadKinetoEvent(event)) state_->events.push_back(*std::move(read));
  }
  return state_->events;
}

absl::Status Recorder::SaveTrace(const std::string& path) {
  // Kineto opens its files by name. No other user can place a link in a new private folder.
  std::string folder = absl::StrCat(path, View(kUnfinished), ".XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return FileError("write", path, errno);
  const std::string trace = absl::StrCat(folder, "/trace.json");
  state_->result->save(trace);
  absl::Status status;
  if (std::rename(trace.c_str(), path.c_str()) != 0) status = FileError("write", path, errno);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return status;
}

namespace {

using SteadyClock = std::chrono::steady_clock;

// Per thread: autograd passes callbacks on to the threads that work for it.
struct Counted {
  int depth = 0;
  SteadyClock::time_point start = {};
  SteadyClock::duration sum = {};
};
thread_local Counted g_counted;

// Ranges of phases and parts of a model do not count as work.
bool Counts(const at::RecordFunction& function) {
  return function.scope() != at::RecordScope::USER_SCOPE ||
         std::string_view(function.name()).starts_with(kKernelPrefix);
}

std::unique_ptr<at::ObserverContext> BeginOperator(const at::RecordFunction& function) {
  if (Counts(function) && g_counted.depth++ == 0) g_counted.start = SteadyClock::now();
  return nullptr;
}

void EndOperator(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (Counts(function) && --g_counted.depth == 0) g_counted.sum += SteadyClock::now() - g_counted.start;
}

}  // namespace

OperatorClock::OperatorClock()
    : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(BeginOperator, EndOperator))) {
  g_counted = {};
}

OperatorClock::~OperatorClock() { at::removeCallback(handle_); }

double OperatorClock::seconds() const { return std::chrono::duration<double>(g_counted.sum).count(); }

}  // namespace roofbench::observe
