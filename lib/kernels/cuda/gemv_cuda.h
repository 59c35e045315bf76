// SPDX-License-Identifier: Apache-2.0
// y = W x on a GPU, with weights of 32, 16, 8 or 4 bits, for one matrix or for some of many. A block a few rows.
#pragma once

#include <cuda_runtime_api.h>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

// As GpuKernels says.
cudaError_t LaunchGemv(const GemvArguments& arguments, cudaStream_t stream);

}  // namespace roofbench::kernels
