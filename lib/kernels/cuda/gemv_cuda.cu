// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "lib/kernels/cuda/gemv_cuda.h"
#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::kernels {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr int kUnroll = 4;  // vectors of a lane in flight

// Eight weights of a row as fp32, scaled only where the scale changes within the row.
template <typename Element>
struct Plain {
  using X = Element;
  const Element* weight;
  __device__ Vector Weights(int64_t row, int64_t cols, int64_t column) const {
    return Load(weight + row * cols + column);
  }
  __device__ float Scale(int64_t) const { return 1; }
};

struct Int8 {
  using X = __nv_bfloat16;
  const int8_t* weight;
  const __nv_bfloat16* scale;
  __device__ Vector Weights(int64_t row, int64_t cols, int64_t column) const {
    return Load(weight + row * cols + column);
  }
  __device__ float Scale(int64_t row) const { return __bfloat162float(scale[row]); }
};

struct Int4 {
  using X = __nv_bfloat16;
  const uint8_t* weight;
  const __nv_bfloat16* scale;
  const __nv_bfloat16* zero;
  int64_t group;
  __device__ Vector Weights(int64_t row, int64_t cols, int64_t column) const {
    const unsigned raw = __ldg(reinterpret_cast<const unsigned*>(weight + (row * cols + column) / 2));
    const int64_t of = (row * cols + column) / group;
    const float s = __bfloat162float(scale[of]);
    const float z = __bfloat162float(zero[of]);
    Vector vector;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      vector.at[i] = (static_cast<float>((raw >> (4 * i)) & 0xfu) - 8) * s + z;
    }
    return vector;
  }
  __device__ float Scale(int64_t) const { return 1; }
};

__device__ void StoreOne(float* to, float value) { *to = value; }
__device__ void StoreOne(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename Weights>
__global__ void GemvRows(Weights weights, typename Weights::X* y, const typename Weights::X* x, int64_t rows,
                         int64_t cols, const int64_t* experts) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // a whole warp
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t stored_row = (experts == nullptr ? 0 : experts[blockIdx.y]) * rows + row;
  constexpr int64_t kStride = static_cast<int64_t>(kWarp) * kVector;
  float sum = 0;
  int64_t column = static_cast<int64_t>(lane) * kVector;
  for (; column + (kUnroll - 1) * kStride < cols; column += kUnroll * kStride) {
    Vector w[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) w[i] = weights.Weights(stored_row, cols, column + i * kStride);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const Vector v = Load(x + column + i * kStride);
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum += w[i].at[j] * v.at[j];
    }
  }
  for (; column < cols; column += kStride) {
    const Vector w = weights.Weights(stored_row, cols, column);
    const Vector v = Load(x + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) sum += w.at[j] * v.at[j];
  }
  sum = WarpSum(sum) * weights.Scale(stored_row);
  if (lane == 0) StoreOne(y + static_cast<int64_t>(blockIdx.y) * rows + row, sum);
}

template <typename Weights>
void Launch(const Weights& weights, const GemvArguments& a, cudaStream_t stream) {
  using X = typename Weights::X;
  const dim3 blocks(static_cast<unsigned>((a.rows + kWarpsPerBlock - 1) / kWarpsPerBlock),
                    static_cast<unsigned>(a.chosen));
  GemvRows<<<blocks, kWarpsPerBlock * kWarp, 0, stream>>>(weights, static_cast<X*>(a.y), static_cast<const X*>(a.x),
                                                          a.rows, a.cols, a.experts);
}

bool Fits(const GemvArguments& a) {
  const bool groups =
      a.type != WeightType::kInt4 || (a.group >= kVector && a.group % kVector == 0 && a.cols % a.group == 0);
  return groups && a.rows >= 1 && a.rows / kWarpsPerBlock < 0x7fffffff && a.cols >= kVector && a.cols % kVector == 0 &&
         a.chosen >= 1 && a.chosen <= 65535 && (a.chosen == 1 || a.experts != nullptr);
}

}  // namespace

cudaError_t LaunchGemv(const GemvArguments& a, cudaStream_t stream) {
  if (!Fits(a)) return cudaErrorInvalidValue;
  const auto* scale = static_cast<const __nv_bfloat16*>(a.scale);
  switch (a.type) {
    case WeightType::kFp32:
      Launch(Plain<float>{static_cast<const float*>(a.weight)}, a, stream);
      break;
    case WeightType::kBf16:
      Launch(Plain<__nv_bfloat16>{static_cast<const __nv_bfloat16*>(a.weight)}, a, stream);
      break;
    case WeightType::kInt8:
      Launch(Int8{static_cast<const int8_t*>(a.weight), scale}, a, stream);
      break;
    case WeightType::kInt4:
      Launch(Int4{static_cast<const uint8_t*>(a.weight), scale, static_cast<const __nv_bfloat16*>(a.zero), a.group}, a,
             stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace roofbench::kernels
