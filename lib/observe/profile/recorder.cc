// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/recorder.h"

#include <stdlib.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/observe/profile/kineto_event.h"
#include "lib/observe/ranges.h"

namespace roofbench::observe {
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
  // Above every level of Kineto's, which tells of its stages on standard error; a user's own setting wins.
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
  // Kineto opens its files by name: in a folder of ours alone nobody else can have put a link.
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

}  // namespace roofbench::observe
