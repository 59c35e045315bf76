// SPDX-License-Identifier: Apache-2.0
// The launches of the CUDA kernels, as GpuKernels describes them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

// y = W x with weights of 32, 16, 8 or 4 bits, for one matrix or for a selection of many. A block computes a few rows.
cudaError_t LaunchGemv(const GemvArguments& arguments, cudaStream_t stream);

// Norms and softmax: a block computes a row, which it reads once.
cudaError_t LaunchRmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols,
                          float epsilon, cudaStream_t stream);
cudaError_t LaunchLayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                            int64_t cols, float epsilon, cudaStream_t stream);
cudaError_t LaunchSoftmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, cudaStream_t stream);

}  // namespace roofbench::kernels
