// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace roofbench::timing {

// CUDA's words for an error, and its name.
inline std::string Describe(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Throws std::runtime_error: what failed, and why. The runtime forgets an error that it can forget: LibTorch would find
// it behind its next launch, in a case that has nothing to do with it.
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + Describe(error));
}

}  // namespace roofbench::timing
