// SPDX-License-Identifier: Apache-2.0
// The host's side of the CUDA runtime, as far as our launches need it: kernels run at once, on
// tests/emulated/machine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulated/machine.h"

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
using cudaStream_t = void*;
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  // As CUDA's: a number is a row of so many.
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT(google-explicit-constructor)
      : x(x_), y(y_), z(z_) {}
};

namespace roofbench::emulated {

// The occupancy that the device reports, and the arguments of the last query.
struct Capacity {
  int machines = 2;
  int blocks_of_machine = 2;
  cudaError_t error = cudaSuccess;  // of the question
  const void* kernel = nullptr;
  int threads = 0;
};
Capacity& TheCapacity();

// Addresses of the kernels that were launched.
std::set<const void*>& Launched();
struct LaunchShape {
  const void* kernel = nullptr;
  dim3 grid, block;
};
LaunchShape& LastLaunch();
// A vector that a thread of the block read or wrote.
struct Access {
  unsigned block;
  const void* address;
};
// Where accesses are recorded; nullptr: nowhere.
std::vector<Access>*& Recorder();
// The stream of every launch: one on another stream, such as the default one, is a fault.
cudaStream_t CallersStream();
// The error that the next cudaGetLastError takes.
cudaError_t& LastError();
cudaError_t Checked(dim3 grid, dim3 block);

template <typename... Parameters, std::size_t... i>
void Call(void (*kernel)(Parameters...), [[maybe_unused]] void** arguments, std::index_sequence<i...> /*numbers*/) {
  kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[i])...);
}

}  // namespace roofbench::emulated

template <typename... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared_bytes*/, cudaStream_t stream) {
  namespace emulated = roofbench::emulated;
  if (stream != emulated::CallersStream()) throw emulated::Fault("a launch on a stream that is not the caller's");
  if (const cudaError_t error = emulated::Checked(grid, block); error != cudaSuccess) {
    return emulated::LastError() = error;
  }
  emulated::Launched().insert(reinterpret_cast<const void*>(kernel));
  emulated::LastLaunch() = {reinterpret_cast<const void*>(kernel), grid, block};
  emulated::Run({grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                [kernel, arguments] { emulated::Call(kernel, arguments, std::index_sequence_for<Parameters...>()); });
  return cudaSuccess;
}

cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);

template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel kernel, int threads,
                                                          std::size_t /*shared_bytes*/) {
  roofbench::emulated::Capacity& capacity = roofbench::emulated::TheCapacity();
  capacity.kernel = reinterpret_cast<const void*>(kernel);
  capacity.threads = threads;
  if (capacity.error == cudaSuccess) *blocks = capacity.blocks_of_machine;
  return capacity.error;
}
