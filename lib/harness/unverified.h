// The CUDA kernels of ours that no GPU has run yet.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/harness/point.h"

namespace roofbench {

// A kernel is code that was never seen to work until a GPU has run it: whoever has run tools/gpu_check without a
// failure takes the rows away that it covered, and says in the commit which GPU it was.
struct UnverifiedKernel {
  std::string_view kernel;  // __global__ function
  std::string_view file;
  // The cases that run it on a GPU: those of the family at this value of the axis `impl`. Empty: it is a probe or a
  // tool of the clock, behind no case of its own.
  std::string_view family = {};
  std::string_view impl = {};
};

std::span<const UnverifiedKernel> UnverifiedKernels();

// Unimplemented for a case on a device of that kind that would run such a kernel.
absl::Status CheckVerified(const Point& point, std::string_view device_kind);

// The table as --list_axes prints it; empty if all kernels were run.
std::string DescribeUnverified();

}  // namespace roofbench
