// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "lib/kernels/cuda/warp_cuda.cuh"
#include "tests/emulated/faulty_kernels_cuda.h"

namespace roofbench::emulated {
namespace {

using kernels::Launch;

constexpr unsigned kAllLanes = 0xffffffffU;

__global__ void Reverse(float* y, const float* x, bool racy) {
  __shared__ float held[kFaultyThreads];
  held[threadIdx.x] = x[threadIdx.x];
  if (!racy) __syncthreads();
  y[threadIdx.x] = held[kFaultyThreads - 1 - threadIdx.x];
}

__device__ float SumOfAll(float mine, bool racy) {
  __shared__ float held[kFaultyThreads];
  if (!racy) __syncthreads();
  held[threadIdx.x] = mine;
  __syncthreads();
  float sum = 0;
  for (float one : held) sum += one;
  return sum;
}

__global__ void TwoSums(float* y, const float* x, bool racy) {
  const float first = SumOfAll(x[threadIdx.x], racy);
  const float second = SumOfAll(x[kFaultyThreads + threadIdx.x], racy);
  y[threadIdx.x] = first;
  y[kFaultyThreads + threadIdx.x] = second;
}

// Larger, so that fair turns keep its warps together.
__device__ float SumByWarps(float mine, bool racy) {
  __shared__ float of_warp[kReductionThreads / kWarp];
  mine = kernels::ReduceWarp<kernels::Sum>(mine);
  if (!racy) __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  float sum = 0;
  for (float one : of_warp) sum += one;
  return sum;
}

__global__ void TwoReductions(float* y, const float* x, bool racy) {
  const float first = SumByWarps(x[threadIdx.x], racy);
  const float second = SumByWarps(x[kReductionThreads + threadIdx.x], racy);
  y[threadIdx.x] = first;
  y[kReductionThreads + threadIdx.x] = second;
}

__global__ void HalfABarrier(int threads_at_it) {
  if (static_cast<int>(threadIdx.x) < threads_at_it) __syncthreads();
}

__global__ void TwoBarriers() {
  if (threadIdx.x < kFaultyThreads / 2) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void LonelyShuffle() {
  if (threadIdx.x != 5) __shfl_xor_sync(kAllLanes, 1.0F, 1);
}

__global__ void LoadOfFour(float* y, const float* x) { *y = __ldg(reinterpret_cast<const float4*>(x)).w; }

}  // namespace

cudaError_t LaunchReverse(float* y, const float* x, bool racy) {
  return Launch(Reverse, 1, kFaultyThreads, CallersStream(), y, x, racy);
}
cudaError_t LaunchTwoSums(float* y, const float* x, bool racy) {
  return Launch(TwoSums, 1, kFaultyThreads, CallersStream(), y, x, racy);
}
cudaError_t LaunchTwoReductions(float* y, const float* x, bool racy) {
  return Launch(TwoReductions, 1, kReductionThreads, CallersStream(), y, x, racy);
}
cudaError_t LaunchOnTheDefaultStream() { return Launch(TwoBarriers, 1, kFaultyThreads, nullptr); }
cudaError_t LaunchHalfABarrier(int threads_at_it) {
  return Launch(HalfABarrier, 1, kFaultyThreads, CallersStream(), threads_at_it);
}
cudaError_t LaunchTwoBarriers() { return Launch(TwoBarriers, 1, kFaultyThreads, CallersStream()); }
cudaError_t LaunchLonelyShuffle() { return Launch(LonelyShuffle, 1, kFaultyThreads, CallersStream()); }
cudaError_t LaunchLoadOfFour(float* y, const float* x) { return Launch(LoadOfFour, 1, 1, CallersStream(), y, x); }

}  // namespace roofbench::emulated
