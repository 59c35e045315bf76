// SPDX-License-Identifier: Apache-2.0
// How all kernels are launched: by the runtime's function, so that the sources are plain C++ and tests/kernels/cuda
// runs them on a processor.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

namespace roofbench::kernels {

// kernel(arguments…) on a grid of blocks. An error of the launch is returned and taken away: the next call of the
// runtime is not at fault.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
                   std::common_type_t<Parameters>... arguments) {
  void* pointers[] = {static_cast<void*>(&arguments)...};
  const cudaError_t launched =
      cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(threads)), pointers, 0, stream);
  const cudaError_t last = cudaGetLastError();
  return launched == cudaSuccess ? last : launched;
}

}  // namespace roofbench::kernels
