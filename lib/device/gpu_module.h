// SPDX-License-Identifier: Apache-2.0
// Finds the CUDA part of the program, which is a shared library that is opened when a GPU is asked for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/gpu.h"

namespace roofbench {

// Opens the module: ../lib or the folder of the program, or the file that ROOFBENCH_CUDA_MODULE names. The error says
// what is missing and how to get it. It is opened once and stays.
absl::StatusOr<const GpuModule*> LoadGpuModule();

// As LoadGpuModule, from a file: for tests.
absl::StatusOr<const GpuModule*> LoadGpuModuleFrom(const std::string& path);

}  // namespace roofbench
