// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/kineto_event.h"

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/json.h"
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

// How a kernel was launched, from Kineto's own lines of JSON.
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
                     .backward = event.fwdThreadId() != 0,  // the scope is that of any function
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

}  // namespace roofbench::observe
