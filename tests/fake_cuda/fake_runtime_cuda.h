// SPDX-License-Identifier: Apache-2.0
// Controls and state of the stand-in for NVIDIA's CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace roofbench {

struct FakeCuda {
  static constexpr int kDevices = 2;

  // Set by tests.
  cudaError_t count_error = cudaSuccess;  // of cudaGetDeviceCount, such as an old driver
  cudaError_t next_error = cudaSuccess;   // of the next synchronization, once
  cudaError_t next_launch_error = cudaSuccess;
  cudaError_t sticky_error = cudaSuccess;  // of every call from now on, as after an illegal access
  // For a program that is started with the stand-in, the variables FAKE_CUDA_MIB and FAKE_CUDA_DEVICES set these.
  std::size_t memory = std::size_t{64} << 20;  // bytes of each device
  int devices = kDevices;

  // Read by tests.
  std::array<std::size_t, kDevices> used = {};  // bytes allocated
  int device = 0;                               // the current one
  int launches = 0;                             // of kernels, outside captures
  int graph_launches = 0;
  std::size_t capturing = 0;  // streams that capture
  int live_events = 0;
  int blocking_waits = 0;  // for events that let the host sleep
  int live_graphs = 0;     // including executables
};

// The state of the linked library.
FakeCuda& TheFakeCuda();

// The number of operations that were enqueued on a stream outside captures: kernels, copies, events, nodes of graphs.
int OperationsOn(cudaStream_t stream);
// Whether the host has waited for all work of a stream.
bool HasWaitedFor(cudaStream_t stream);

}  // namespace roofbench
