// Which implementations a device has, where the family has nothing to add.
#pragma once

#include "absl/status/status.h"
#include "lib/harness/device.h"
#include "lib/harness/point.h"

namespace roofbench {

// Of the axis `impl`: oneDNN and our kernels for processors run on a CPU alone, a CUDA graph on a GPU alone.
absl::Status ImplementationSupports(const Point& at, const Device& device);

}  // namespace roofbench
