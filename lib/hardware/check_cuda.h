// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace roofbench::hardware {

// Throws std::runtime_error: what failed, and CUDA's words for it.
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

}  // namespace roofbench::hardware
