// SPDX-License-Identifier: Apache-2.0
// `impl:graph`: a step recorded once as a CUDA graph and launched as a whole.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/suite/case.h"
#include "lib/suite/point.h"

namespace roofbench {

// OK on a device that has graphs; else the reason why the case is skipped. For the Supports of a family.
absl::Status SupportsGraph(const Device& device);

// The same case with its step recorded. What the step leaves behind must lie in the same memory each time, and it must
// not wait for the device. Phases keep their marks, which the graph makes itself.
absl::StatusOr<Case> Graphed(Case eager, Device& device);

}  // namespace roofbench
