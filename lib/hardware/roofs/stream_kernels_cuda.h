// SPDX-License-Identifier: Apache-2.0
// Launches the memory streams on a GPU: raw pointers in, no exception out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace roofbench::hardware {

// In the order of StreamKind, whose header a CUDA compiler need not understand.
enum class CudaStream { kRead, kCopy, kUpdate, kWrite };

inline constexpr int kCudaStreamVariants = 2;  // "plain": kept in L2; "streaming": marked as used once

// As GpuPass, in 16-byte words: `words` of them, a multiple of 4.
cudaError_t LaunchCudaStream(CudaStream kind, int variant, void* to, const void* from, std::size_t words, int repeat,
                             unsigned long long pattern, cudaStream_t stream);

}  // namespace roofbench::hardware
