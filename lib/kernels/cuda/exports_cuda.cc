// SPDX-License-Identifier: Apache-2.0
// The table of kernels that the CUDA part exports.

#include "lib/kernels/cuda/gpu_kernels.h"
#include "lib/kernels/cuda/launch_cuda.h"

namespace roofbench::kernels {
namespace {

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }

int RmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
            void* stream) {
  return LaunchRmsNorm(type, y, x, weight, rows, cols, epsilon, Stream(stream));
}

int LayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows, int64_t cols,
              float epsilon, void* stream) {
  return LaunchLayerNorm(type, y, x, weight, bias, rows, cols, epsilon, Stream(stream));
}

int Softmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream) {
  return LaunchSoftmax(type, y, x, rows, cols, Stream(stream));
}

int Gemv(const GemvArguments& arguments, void* stream) { return LaunchGemv(arguments, Stream(stream)); }

}  // namespace
}  // namespace roofbench::kernels

extern "C" __attribute__((visibility("default"))) const roofbench::kernels::GpuKernels roofbench_gpu_kernels = {
    .version = roofbench::kernels::kGpuKernelsVersion,
    .rms_norm = &roofbench::kernels::RmsNorm,
    .layer_norm = &roofbench::kernels::LayerNorm,
    .softmax = &roofbench::kernels::Softmax,
    .gemv = &roofbench::kernels::Gemv,
};
