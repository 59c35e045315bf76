// SPDX-License-Identifier: Apache-2.0
// Vectors of a thread and sums of a warp, for the kernels of this folder.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

constexpr int kVector = static_cast<int>(kGpuVector);  // 16 bytes of bf16
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Vector {
  float at[kVector];
};

__device__ inline Vector Load(const float* from) {
  const float4 a = __ldg(reinterpret_cast<const float4*>(from));
  const float4 b = __ldg(reinterpret_cast<const float4*>(from) + 1);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

__device__ inline Vector Load(const __nv_bfloat16* from) {
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from));
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
  Vector vector;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // bf16 is the upper half of an fp32.
    vector.at[2 * i] = __uint_as_float(words[i] << 16);
    vector.at[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
  return vector;
}

__device__ inline Vector Load(const int8_t* from) {
  const uint2 raw = __ldg(reinterpret_cast<const uint2*>(from));
  Vector vector;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const unsigned word = i < 4 ? raw.x : raw.y;
    vector.at[i] = static_cast<float>(static_cast<int8_t>(word >> (8 * (i % 4))));
  }
  return vector;
}

__device__ inline void Store(float* to, const Vector& v) {
  reinterpret_cast<float4*>(to)[0] = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(v.at[4], v.at[5], v.at[6], v.at[7]);
}

__device__ inline void Store(__nv_bfloat16* to, const Vector& v) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = __bfloat16_as_ushort(__float2bfloat16_rn(v.at[2 * i]));
    const unsigned high = __bfloat16_as_ushort(__float2bfloat16_rn(v.at[2 * i + 1]));
    words[i] = low | (high << 16);
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline float WarpSum(float mine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(kAllLanes, mine, offset);
  return mine;
}

}  // namespace roofbench::kernels
