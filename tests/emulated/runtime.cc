// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/emulated/cuda/cuda_runtime_api.h"

namespace roofbench::emulated {

std::set<const void*>& Launched() {
  static auto* kernels = new std::set<const void*>;
  return *kernels;
}

Capacity& TheCapacity() {
  static Capacity capacity;
  return capacity;
}

LaunchShape& LastLaunch() {
  static LaunchShape last;
  return last;
}

std::vector<Access>*& Recorder() {
  static std::vector<Access>* recorder = nullptr;
  return recorder;
}

cudaStream_t CallersStream() {
  static char stream;
  return &stream;
}

cudaError_t& LastError() {
  static cudaError_t error = cudaSuccess;
  return error;
}

// The limits that devices of compute capability 8.0 and 9.0 share.
cudaError_t Checked(dim3 grid, dim3 block) {
  const auto within = [](unsigned count, unsigned most) { return count >= 1 && count <= most; };
  const bool fits = within(grid.x, 0x7fffffff) && within(grid.y, 65535) && within(grid.z, 65535) &&
                    within(block.x, kMostThreads) && block.y == 1 && block.z == 1;
  return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace roofbench::emulated

cudaError_t cudaGetLastError() { return std::exchange(roofbench::emulated::LastError(), cudaSuccess); }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  *value = roofbench::emulated::TheCapacity().machines;
  return cudaSuccess;
}
