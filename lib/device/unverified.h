// SPDX-License-Identifier: Apache-2.0
// Code that has not run on a GPU yet: our CUDA kernels, and artifacts that are built on a machine with a GPU.
#pragma once

#include <string>
#include <string_view>

namespace roofbench {

// A kernel counts as unverified until a GPU has run it: `tools/gpu_check --accept=RESULT` removes the rows that a run
// covered without a failure.
struct UnverifiedKernel {
  std::string_view kernel;  // __global__ function, or a name that stands for third-party kernels
  std::string_view file;
  bool emulated = false;  // tests/emulated runs it on the processor, where its results are correct
};

// nullptr: a GPU has run the kernel.
const UnverifiedKernel* FindUnverified(std::string_view kernel);

// The table as --list_axes prints it.
std::string DescribeUnverified();

}  // namespace roofbench
