// Finds the CUDA part of the program, which is a shared library that is opened when a GPU is asked for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/harness/gpu.h"

namespace roofbench {

// Opens the module: ../lib or the folder of the program, or the file that ROOFBENCH_CUDA_MODULE names. The error says
// what is missing and how to get it. It is opened once and stays.
absl::StatusOr<const GpuModule*> LoadGpuModule();

// A symbol that the module exports beside its interface: a table of kernels. NotFound if it has none of that name.
absl::StatusOr<const void*> FindInGpuModule(const std::string& symbol);

// As LoadGpuModule, from a file: for tests.
absl::StatusOr<const GpuModule*> LoadGpuModuleFrom(const std::string& path);

}  // namespace roofbench
