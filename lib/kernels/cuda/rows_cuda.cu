// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "lib/kernels/cuda/launch_cuda.h"
#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::kernels {
namespace {

// The register file holds 64 registers for each of this many threads: the bound keeps the compiler within it.
constexpr int kMostThreads = 1024;

// The threads that share a row: a block.
struct Block {
  static constexpr int kMostVectors = 4;  // that a thread holds
  __device__ static int64_t Row() { return blockIdx.x; }
  __device__ static int64_t Thread() { return threadIdx.x; }
  __device__ static int64_t Threads() { return blockDim.x; }
  template <typename Operation>
  __device__ static float Reduce(float mine) {
    return ReduceBlock<Operation, kMostThreads>(mine);
  }
};

// A warp for each short row. A multiprocessor holds 32 blocks: a row in each would leave half of its threads unused.
struct Warp {
  static constexpr int kMostVectors = 1;
  static constexpr int kOfBlock = 4;
  __device__ static int64_t Row() { return static_cast<int64_t>(blockIdx.x) * kOfBlock + threadIdx.x / kWarp; }
  __device__ static int64_t Thread() { return threadIdx.x % kWarp; }
  __device__ static int64_t Threads() { return kWarp; }
  template <typename Operation>
  __device__ static float Reduce(float mine) {
    return ReduceWarp<Operation>(mine);
  }
};

constexpr int64_t kMostShortColumns = int64_t{Warp::kMostVectors} * kVector * kWarp;

// The share of a row that a thread holds: vector i starts at column (i · threads + thread) · kVector.
template <typename Element, typename Team>
struct RowShare {
  static constexpr int kMostVectors = Team::kMostVectors;
  Vector held[kMostVectors];

  __device__ static int64_t Column(int i) { return (i * Team::Threads() + Team::Thread()) * kVector; }

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

template <typename Element, typename Team>
__global__ void __launch_bounds__(kMostThreads)
    RmsNormRows(Element* y, const Element* x, int64_t rows, const float* weight, int64_t cols, float inverse_cols,
                float epsilon) {
  if (Team::Row() >= rows) return;
  const int64_t row = Team::Row() * cols;
  RowShare<Element, Team> own;
  own.LoadFrom(x + row, cols);
  float squares = 0;
  own.ForEach(cols, [&](float value) { squares += value * value; });
  const float scale = rsqrtf(Team::template Reduce<Sum>(squares) * inverse_cols + epsilon);
  own.StoreTo(y + row, cols, [&](int64_t column, Vector& vector) {
    const Vector factor = Load(weight + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) vector.at[j] *= scale * factor.at[j];
  });
}

template <typename Element, typename Team>
__global__ void __launch_bounds__(kMostThreads)
    LayerNormRows(Element* y, const Element* x, int64_t rows, const float* weight, const float* bias, int64_t cols,
                  float inverse_cols, float epsilon) {
  if (Team::Row() >= rows) return;
  const int64_t row = Team::Row() * cols;
  RowShare<Element, Team> own;
  own.LoadFrom(x + row, cols);
  float sum = 0;
  own.ForEach(cols, [&](float value) { sum += value; });
  const float mean = Team::template Reduce<Sum>(sum) * inverse_cols;
  // A sum of squares in the same pass would cancel where the mean is large compared with the deviation.
  float squares = 0;
  own.ForEach(cols, [&](float value) { squares += (value - mean) * (value - mean); });
  const float scale = rsqrtf(Team::template Reduce<Sum>(squares) * inverse_cols + epsilon);
  own.StoreTo(y + row, cols, [&](int64_t column, Vector& vector) {
    const Vector factor = Load(weight + column);
    const Vector offset = Load(bias + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) vector.at[j] = (vector.at[j] - mean) * scale * factor.at[j] + offset.at[j];
  });
}

template <typename Element, typename Team>
__global__ void __launch_bounds__(kMostThreads) SoftmaxRows(Element* y, const Element* x, int64_t rows, int64_t cols) {
  if (Team::Row() >= rows) return;
  const int64_t row = Team::Row() * cols;
  RowShare<Element, Team> own;
  own.LoadFrom(x + row, cols);
  float largest = -INFINITY;
  own.ForEach(cols, [&](float value) { largest = fmaxf(largest, value); });
  largest = Team::template Reduce<Maximum>(largest);
  float sum = 0;
  own.ForEach(cols, [&](float& value) {
    value = __expf(value - largest);
    sum += value;
  });
  const float scale = __fdividef(1, Team::template Reduce<Sum>(sum));
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
  const int64_t least = (cols / kVector + Block::kMostVectors - 1) / Block::kMostVectors;
  return static_cast<int>((least + kWarp - 1) / kWarp * kWarp);
}

float Inverse(int64_t cols) { return static_cast<float>(1.0 / static_cast<double>(cols)); }

bool IsShort(int64_t cols) { return cols <= kMostShortColumns; }

// Runs kernel(y, x, rows, arguments…).
template <typename Element, typename... Parameters>
int RunRows(void (*kernel)(Element*, const Element*, int64_t, Parameters...), void* y, const void* x, int64_t rows,
            int64_t cols, void* stream, std::common_type_t<Parameters>... arguments) {
  if (!Fits(rows, cols)) return cudaErrorInvalidValue;
  const int64_t of_block = IsShort(cols) ? Warp::kOfBlock : 1;
  const int threads = IsShort(cols) ? Warp::kOfBlock * kWarp : ThreadsFor(cols);
  return Launch(kernel, static_cast<unsigned>((rows + of_block - 1) / of_block), threads, stream,
                static_cast<Element*>(y), static_cast<const Element*>(x), rows, arguments...);
}

// Calls run(element, team), whose types are those of the kernel.
template <typename Run>
int WithTypes(RowType type, int64_t cols, const Run& run) {
  const auto with_team = [&](auto element) { return IsShort(cols) ? run(element, Warp()) : run(element, Block()); };
  return type == RowType::kFp32 ? with_team(float()) : with_team(__nv_bfloat16());
}

}  // namespace

int LaunchRmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
                  void* stream) {
  return WithTypes(type, cols, [&](auto element, auto team) {
    return RunRows(RmsNormRows<decltype(element), decltype(team)>, y, x, rows, cols, stream, weight, cols,
                   Inverse(cols), epsilon);
  });
}

int LaunchLayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows,
                    int64_t cols, float epsilon, void* stream) {
  return WithTypes(type, cols, [&](auto element, auto team) {
    return RunRows(LayerNormRows<decltype(element), decltype(team)>, y, x, rows, cols, stream, weight, bias, cols,
                   Inverse(cols), epsilon);
  });
}

int LaunchSoftmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream) {
  return WithTypes(type, cols, [&](auto element, auto team) {
    return RunRows(SoftmaxRows<decltype(element), decltype(team)>, y, x, rows, cols, stream, cols);
  });
}

}  // namespace roofbench::kernels
