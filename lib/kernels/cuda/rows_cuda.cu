// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "lib/kernels/cuda/launch_cuda.h"
#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::kernels {
namespace {

constexpr int kMostVectors = 4;  // that a thread holds
// The register file holds 64 registers for each of this many threads: the bound keeps the compiler within it.
constexpr int kMostThreads = 1024;

template <typename Operation>
__device__ float Reduce(float mine) {
  return ReduceBlock<Operation, kMostThreads>(mine);
}

// The share of a row that a thread holds: vector i starts at column (i · threads + thread) · kVector.
template <typename Element>
struct RowShare {
  Vector held[kMostVectors];

  __device__ static int64_t Column(int i) { return (static_cast<int64_t>(i) * blockDim.x + threadIdx.x) * kVector; }

  __device__ void LoadFrom(const Element* row, int64_t cols) {
#pragma unroll
    for (int i = 0; i < kMostVectors; ++i) {
      if (Column(i) < cols) held[i] = Load(row + Column(i));
    }
  }

  // Calls body(element) for the thread's elements.
  template <typename Body>
  __device__ void ForEach(int64_t cols, const Body& body) {
#pragma unroll
    for (int i = 0; i < kMostVectors; ++i) {
      if (Column(i) >= cols) continue;
#pragma unroll
      for (int j = 0; j < kVector; ++j) body(held[i].at[j]);
    }
  }

  // Calls body(column, vector) for each vector, and writes its result.
  template <typename Body>
  __device__ void StoreTo(Element* row, int64_t cols, const Body& body) {
#pragma unroll
    for (int i = 0; i < kMostVectors; ++i) {
      if (Column(i) >= cols) continue;
      body(Column(i), held[i]);
      Store(row + Column(i), held[i]);
    }
  }
};

template <typename Element>
__global__ void __launch_bounds__(kMostThreads)
    RmsNormRows(Element* y, const Element* x, const float* weight, int64_t cols, float inverse_cols, float epsilon) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * cols;
  RowShare<Element> own;
  own.LoadFrom(x + row, cols);
  float squares = 0;
  own.ForEach(cols, [&](float value) { squares += value * value; });
  const float scale = rsqrtf(Reduce<Sum>(squares) * inverse_cols + epsilon);
  own.StoreTo(y + row, cols, [&](int64_t column, Vector& vector) {
    const Vector factor = Load(weight + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) vector.at[j] *= scale * factor.at[j];
  });
}

template <typename Element>
__global__ void __launch_bounds__(kMostThreads)
    LayerNormRows(Element* y, const Element* x, const float* weight, const float* bias, int64_t cols,
                  float inverse_cols, float epsilon) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * cols;
  RowShare<Element> own;
  own.LoadFrom(x + row, cols);
  float sum = 0;
  own.ForEach(cols, [&](float value) { sum += value; });
  const float mean = Reduce<Sum>(sum) * inverse_cols;
  // A sum of squares in the same pass would cancel where the mean is large compared with the deviation.
  float squares = 0;
  own.ForEach(cols, [&](float value) { squares += (value - mean) * (value - mean); });
  const float scale = rsqrtf(Reduce<Sum>(squares) * inverse_cols + epsilon);
  own.StoreTo(y + row, cols, [&](int64_t column, Vector& vector) {
    const Vector factor = Load(weight + column);
    const Vector offset = Load(bias + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) vector.at[j] = (vector.at[j] - mean) * scale * factor.at[j] + offset.at[j];
  });
}

template <typename Element>
__global__ void __launch_bounds__(kMostThreads) SoftmaxRows(Element* y, const Element* x, int64_t cols) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * cols;
  RowShare<Element> own;
  own.LoadFrom(x + row, cols);
  float largest = -INFINITY;
  own.ForEach(cols, [&](float value) { largest = fmaxf(largest, value); });
  largest = Reduce<Maximum>(largest);
  float sum = 0;
  own.ForEach(cols, [&](float& value) {
    value = __expf(value - largest);
    sum += value;
  });
  const float scale = __fdividef(1, Reduce<Sum>(sum));
  own.StoreTo(y + row, cols, [&](int64_t, Vector& vector) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) vector.at[j] *= scale;
  });
}

bool Fits(int64_t rows, int64_t cols) {
  return rows >= 1 && rows <= 0x7fffffff && cols >= kVector && cols <= kMostRowColumns && cols % kVector == 0;
}

// Whole warps, as few as hold the row: a thread with all its vectors in flight hides the memory's latency best.
int ThreadsFor(int64_t cols) {
  const int64_t least = (cols / kVector + kMostVectors - 1) / kMostVectors;
  return static_cast<int>((least + kWarp - 1) / kWarp * kWarp);
}

float Inverse(int64_t cols) { return static_cast<float>(1.0 / static_cast<double>(cols)); }

// Runs kernel(y, x, arguments…), a block for each row.
template <typename Element, typename... Parameters>
int RunRows(void (*kernel)(Element*, const Element*, Parameters...), void* y, const void* x, int64_t rows, int64_t cols,
            void* stream, std::common_type_t<Parameters>... arguments) {
  if (!Fits(rows, cols)) return cudaErrorInvalidValue;
  return Launch(kernel, static_cast<unsigned>(rows), ThreadsFor(cols), stream, static_cast<Element*>(y),
                static_cast<const Element*>(x), arguments...);
}

}  // namespace

int LaunchRmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
                  void* stream) {
  const auto run = [&](auto* kernel) {
    return RunRows(kernel, y, x, rows, cols, stream, weight, cols, Inverse(cols), epsilon);
  };
  return type == RowType::kFp32 ? run(RmsNormRows<float>) : run(RmsNormRows<__nv_bfloat16>);
}

int LaunchLayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                    int64_t cols, float epsilon, void* stream) {
  const auto run = [&](auto* kernel) {
    return RunRows(kernel, y, x, rows, cols, stream, weight, bias, cols, Inverse(cols), epsilon);
  };
  return type == RowType::kFp32 ? run(LayerNormRows<float>) : run(LayerNormRows<__nv_bfloat16>);
}

int LaunchSoftmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream) {
  const auto run = [&](auto* kernel) { return RunRows(kernel, y, x, rows, cols, stream, cols); };
  return type == RowType::kFp32 ? run(SoftmaxRows<float>) : run(SoftmaxRows<__nv_bfloat16>);
}

}  // namespace roofbench::kernels
