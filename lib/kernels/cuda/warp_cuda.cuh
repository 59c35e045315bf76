// SPDX-License-Identifier: Apache-2.0
// Helpers of the kernels in this folder: vectors of a thread, reductions of a warp and of a block, and launches through
// the runtime's function, so that the sources are plain C++ and tests/emulated runs them on a processor.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench::kernels {

constexpr int kVector = static_cast<int>(kGpuVector);  // 16 bytes of bf16
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <int kCount>
struct Piece {
  float at[kCount];
};
using Vector = Piece<kVector>;

// bf16 is the upper half of an fp32.
__device__ inline float LowBf16(unsigned word) { return __uint_as_float(word << 16); }
__device__ inline float HighBf16(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

__device__ inline Vector FromBf16(const uint4& raw) {
  return {{LowBf16(raw.x), HighBf16(raw.x), LowBf16(raw.y), HighBf16(raw.y), LowBf16(raw.z), HighBf16(raw.z),
           LowBf16(raw.w), HighBf16(raw.w)}};
}

// A vector that no other thread reads: it takes no place in the L1, which keeps the operands that many read.
template <typename Raw>
__device__ inline Raw LoadOnce(const Raw* from) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(Raw) == 8 || sizeof(Raw) == 16);
  union {
    unsigned word[sizeof(Raw) / sizeof(unsigned)];
    Raw raw;
  } loaded;
  if constexpr (sizeof(Raw) == 8) {
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(loaded.word[0]), "=r"(loaded.word[1]) : "l"(from));
  } else {
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3])
        : "l"(from));
  }
  return loaded.raw;
#else
  return __ldg(from);
#endif
}

__device__ inline Vector Load(const float* from) {
  const float4 a = __ldg(reinterpret_cast<const float4*>(from));
  const float4 b = __ldg(reinterpret_cast<const float4*>(from) + 1);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

__device__ inline Vector Load(const __nv_bfloat16* from) {
  return FromBf16(__ldg(reinterpret_cast<const uint4*>(from)));
}

__device__ inline unsigned PackBf16(float low, float high) {
  return static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(low))) |
         (static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16);
}

// The intrinsic is one store of 16 bytes; an assignment was compiled to four stores of 4 bytes.
__device__ inline void Store(float* to, const Vector& v) {
  __stwb(reinterpret_cast<float4*>(to), make_float4(v.at[0], v.at[1], v.at[2], v.at[3]));
  __stwb(reinterpret_cast<float4*>(to) + 1, make_float4(v.at[4], v.at[5], v.at[6], v.at[7]));
}

__device__ inline void Store(__nv_bfloat16* to, const Vector& v) {
  __stwb(reinterpret_cast<uint4*>(to), make_uint4(PackBf16(v.at[0], v.at[1]), PackBf16(v.at[2], v.at[3]),
                                                  PackBf16(v.at[4], v.at[5]), PackBf16(v.at[6], v.at[7])));
}

struct Sum {
  __device__ static float Join(float a, float b) { return a + b; }
  __device__ static float Nothing() { return 0; }
};

struct Maximum {
  __device__ static float Join(float a, float b) { return fmaxf(a, b); }
  __device__ static float Nothing() { return -INFINITY; }
};

// The result is valid in every lane.
template <typename Operation>
__device__ float ReduceWarp(float mine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    mine = Operation::Join(mine, __shfl_xor_sync(kAllLanes, mine, offset));
  }
  return mine;
}

// The result is valid in every thread of the block, which has at most kMostThreads in whole warps.
template <typename Operation, int kMostThreads>
__device__ float ReduceBlock(float mine) {
  __shared__ float of_warp[kMostThreads / kWarp];
  mine = ReduceWarp<Operation>(mine);
  __syncthreads();  // wait for the last reduction's readers
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  float all = Operation::Nothing();
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) all = Operation::Join(all, of_warp[warp]);
  return all;
}

// Runs kernel(arguments…) on a grid of blocks. Returns and clears a launch error: the next call of the runtime is not
// at fault.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, int threads, void* stream,
                   std::common_type_t<Parameters>... arguments) {
  void* pointers[] = {static_cast<void*>(&arguments)...};
  const cudaError_t launched = cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(threads)), pointers, 0,
                                                static_cast<cudaStream_t>(stream));
  const cudaError_t last = cudaGetLastError();
  return launched == cudaSuccess ? last : launched;
}

}  // namespace roofbench::kernels
