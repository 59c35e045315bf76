// SPDX-License-Identifier: Apache-2.0
// Code that has not run on a GPU yet: our CUDA kernels, and artifacts that are built on a machine with a GPU.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace roofbench {

// A kernel counts as unverified until a GPU has run it: after a run of tools/gpu_check without a failure, remove the
// rows that it covered, and name the GPU in the commit.
struct UnverifiedKernel {
  std::string_view kernel;  // __global__ function, or a name that stands for third-party kernels
  std::string_view file;
  bool emulated = false;  // tests/emulated runs it on the processor, where its results are correct
};

std::span<const UnverifiedKernel> UnverifiedKernels();
bool IsUnverified(std::string_view kernel);
bool IsEmulatedAlone(std::string_view kernel);  // unverified, but emulated

// The table as --list_axes prints it; empty if all kernels have run on a GPU.
std::string DescribeUnverified();

}  // namespace roofbench
