// SPDX-License-Identifier: Apache-2.0
// The table of kernels that the CUDA part exports.

#include "lib/kernels/cuda/launch_cuda.h"

extern "C" __attribute__((visibility("default"))) const roofbench::kernels::GpuKernels roofbench_gpu_kernels = {
    .version = roofbench::kernels::kGpuKernelsVersion,
    .rms_norm = &roofbench::kernels::LaunchRmsNorm,
    .layer_norm = &roofbench::kernels::LaunchLayerNorm,
    .softmax = &roofbench::kernels::LaunchSoftmax,
    .gemv = &roofbench::kernels::LaunchGemv,
};
