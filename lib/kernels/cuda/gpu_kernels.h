// SPDX-License-Identifier: Apache-2.0
// Our kernels for GPUs, as the CUDA part of the program exports them: callers do not need a CUDA header.
#pragma once

#include <cstdint>

namespace roofbench::kernels {

// Element types of rows. Arithmetic is fp32.
enum class RowType { kFp32, kBf16 };
inline constexpr int64_t kGpuVector = 8;           // columns are a multiple of this: a thread loads as many at once
inline constexpr int64_t kMostRowColumns = 32768;  // a row is held in the registers of a block of 1,024 threads

// How the weights of a GEMV are stored, row after row. x and y are fp32 with kFp32 weights and bf16 with all others.
//   kInt8: w = q * scale[row]                                          scale: fp32 [rows]
//   kInt4: two to a byte, the even column in the low four bits;
//          w = (q - 8) * scale + zero, q in [0, 15]                    scale, zero: bf16 [rows][cols / group]
enum class WeightType { kFp32, kBf16, kInt8, kInt4 };

inline constexpr int kMostGemvBatch = 8;
inline constexpr int64_t kMostGemvColumns = int64_t{1} << 27;

// Whether GemvArguments may have `batch` vectors of `cols` columns: up to kMostGemvBatch for kInt8 with rows of whole
// 16-byte words, otherwise one. kInt4 also constrains its groups.
inline constexpr bool TakesGemv(WeightType type, int64_t batch, int64_t cols) {
  const int64_t most = type == WeightType::kInt8 && cols % (2 * kGpuVector) == 0 ? kMostGemvBatch : 1;
  return batch >= 1 && batch <= most && cols >= kGpuVector && cols % kGpuVector == 0 && cols <= kMostGemvColumns;
}

// y = W x for matrices of `rows` x `cols`. Pointers are 16-byte aligned and `cols` is a multiple of kGpuVector (kInt4:
// of `group`, a power of two of at least 32). Fields that the type does not need are nullptr.
struct GemvArguments {
  WeightType type = WeightType::kBf16;
  const void* weight = nullptr;
  const void* scale = nullptr;
  const void* zero = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t group = 0;
  // As TakesGemv: x [batch][cols] and y [batch][rows].
  int batch = 1;
  // gather: `chosen` matrices among those that lie one after another at `weight`; `experts` [chosen] are their numbers,
  // in the device's memory, so that a router need not copy them to the host. y is [chosen][batch][rows]; all share x.
  int chosen = 1;
  const int64_t* experts = nullptr;  // nullptr: the first matrix alone
};

// Each enqueues its work on a CUDA stream (a cudaStream_t; c10::Stream::native_handle gives it) and does not wait. They
// return a cudaError_t: 0 for success, 1 (cudaErrorInvalidValue) for an unsupported shape. Rows are contiguous; `cols`
// is a multiple of kGpuVector and at most kMostRowColumns; pointers are 16-byte aligned; weight and bias have `cols`
// elements.
struct GpuKernels {
  int version;
  // y = x / sqrt(mean(x * x) + epsilon) * weight, row by row.
  int (*rms_norm)(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
                  void* stream);
  // y = (x - mean) / sqrt(variance + epsilon) * weight + bias, row by row.
  int (*layer_norm)(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                    int64_t cols, float epsilon, void* stream);
  // y = exp(x - max) / sum, row by row.
  int (*softmax)(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream);
  int (*gemv)(const GemvArguments& arguments, void* stream);
};
inline constexpr int kGpuKernelsVersion = 4;
// A `const GpuKernels`, for Gpu::Export.
inline constexpr char kGpuKernelsSymbol[] = "roofbench_gpu_kernels";

}  // namespace roofbench::kernels
