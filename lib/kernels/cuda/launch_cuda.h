// SPDX-License-Identifier: Apache-2.0
// The launches of the CUDA kernels, as GpuKernels describes them.
#pragma once

#include <cstdint>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

// y = W x with weights of 32, 16, 8 or 4 bits, for one matrix or for a selection of many. A block computes a few rows.
int LaunchGemv(const GemvArguments& arguments, void* stream);

// Norms and softmax: a block computes a row, which it reads once.
int LaunchRmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
                  void* stream);
int LaunchLayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                    int64_t cols, float epsilon, void* stream);
int LaunchSoftmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream);

}  // namespace roofbench::kernels
