// SPDX-License-Identifier: Apache-2.0
// What no GPU has run yet: CUDA kernels of ours, and what is made where a GPU is.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace roofbench {

// A kernel is code that was never seen to work until a GPU has run it: whoever has run tools/gpu_check without a
// failure takes the rows away that it covered, and says in the commit which GPU it was.
struct UnverifiedKernel {
  std::string_view kernel;  // __global__ function, or what stands for kernels that others write
  std::string_view file;
  bool emulated = false;  // tests/emulated runs it on the processor, and its results are right there
};

std::span<const UnverifiedKernel> UnverifiedKernels();
bool IsUnverified(std::string_view kernel);
bool IsEmulatedAlone(std::string_view kernel);  // unverified, but emulated

// The table as --list_axes prints it; empty if all kernels were run.
std::string DescribeUnverified();

}  // namespace roofbench
