// SPDX-License-Identifier: Apache-2.0
// `impl:graph`: a step recorded once as a CUDA graph and launched as a whole.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/suite/case.h"
#include "lib/suite/point.h"

namespace roofbench {

// OK on a device with graphs; otherwise the reason for skipping the case. For the Supports of a family.
absl::Status SupportsGraph(const Device& device);

// The same case with its step recorded. The step must leave its results in the same memory each time and must not wait
// for the device. Phases keep their marks, which the graph records.
absl::StatusOr<Case> Graphed(Case eager, Device& device);

}  // namespace roofbench
