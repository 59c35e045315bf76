// SPDX-License-Identifier: Apache-2.0
// What a test says to the CUDA runtime that stands in for NVIDIA's, and what it asks of it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace roofbench {

struct FakeCuda {
  static constexpr int kDevices = 2;

  // What is to happen.
  cudaError_t count_error = cudaSuccess;  // of cudaGetDeviceCount: an old driver, say
  cudaError_t next_error = cudaSuccess;   // of the next synchronisation, once
  cudaError_t next_launch_error = cudaSuccess;
  cudaError_t sticky_error = cudaSuccess;      // of every call from now on, as after an illegal access
  std::size_t memory = std::size_t{64} << 20;  // bytes of each device

  // What has happened.
  std::array<std::size_t, kDevices> used = {};  // bytes allocated
  int device = 0;                               // the current one
  int launches = 0;                             // of kernels, outside of captures
  int graph_launches = 0;
  std::size_t capturing = 0;  // streams that capture
  int live_events = 0;
  int live_graphs = 0;  // and executables of them
};

// Of the library that the program is linked with.
FakeCuda& TheFakeCuda();

}  // namespace roofbench
