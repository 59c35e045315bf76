// SPDX-License-Identifier: Apache-2.0
// Finds the CUDA part of the program, a shared library that is opened when a GPU is requested.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/gpu.h"

namespace roofbench {

// Opens the module: from ../lib or the program's folder, or the file that ROOFBENCH_CUDA_MODULE names. The error names
// the missing part and the way to get it. The module is opened once and stays open.
absl::StatusOr<const GpuModule*> LoadGpuModule();

// As LoadGpuModule, from a given file: for tests.
absl::StatusOr<const GpuModule*> LoadGpuModuleFrom(const std::string& path);

}  // namespace roofbench
