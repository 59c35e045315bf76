// SPDX-License-Identifier: Apache-2.0
// Row-wise kernels on a GPU: norms and softmax. One block a row, which is read once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

// As GpuKernels says.
cudaError_t LaunchRmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols,
                          float epsilon, cudaStream_t stream);
cudaError_t LaunchLayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                            int64_t cols, float epsilon, cudaStream_t stream);
cudaError_t LaunchSoftmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, cudaStream_t stream);

}  // namespace roofbench::kernels
