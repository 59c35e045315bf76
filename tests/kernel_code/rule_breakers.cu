// SPDX-License-Identifier: Apache-2.0
// Each kernel breaks the rule that its name says; Good keeps all rules.

constexpr int kThreads = 256;

template <int kLoads>
__device__ float4 SumOf(const float4* x, int stride) {
  float4 held[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) held[i] = __ldg(x + i * stride);
  float4 sum = {};
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    sum.x += held[i].x;
    sum.y += held[i].y;
    sum.z += held[i].z;
    sum.w += held[i].w;
  }
  return sum;
}

__device__ int Thread() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void __launch_bounds__(kThreads) Good(float4* y, const float4* x, int stride) {
  __stwb(y + Thread(), SumOf<4>(x + Thread(), stride));
}

__global__ void __launch_bounds__(kThreads) ScalarStores(float* y, const float4* x, int stride) {
  const float4 sum = SumOf<4>(x + Thread(), stride);
  float* const to = y + 4 * Thread();
  to[0] = sum.x;
  to[1] = sum.y;
  to[2] = sum.z;
  to[3] = sum.w;
}

__global__ void __launch_bounds__(kThreads) OneInFlight(float4* y, const float4* x, int rounds) {
  float4 sum = {};
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    const float4 one = SumOf<1>(x + Thread(), 0);
    x += static_cast<int>(one.x);  // the next load waits for this one
    sum.x += one.y + one.z + one.w;
  }
  __stwb(y + Thread(), sum);
}

__global__ void __launch_bounds__(kThreads) ScalarLoads(float* y, const float* x, int stride) {
  float sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = __ldg(x + Thread() + i * stride);
  y[Thread()] = sum[0] + sum[1] + sum[2] + sum[3];
}

__global__ void __launch_bounds__(kThreads) LongDivision(long long* y, const long long* x) {
  y[Thread()] = x[Thread()] / x[Thread() + 1];
}

__global__ void __launch_bounds__(kThreads) IntDivision(int* y, const int* x) { y[Thread()] = x[Thread()] / x[1]; }

__global__ void __launch_bounds__(kThreads) FloatDivision(float* y, const float* x) {
  y[Thread()] = x[Thread()] / x[1];
}

__global__ void __launch_bounds__(kThreads) Spilled(float* y, const float* x, const int* order) {
  float held[64];
  for (int i = 0; i < 64; ++i) held[i] = x[i];
  for (int i = 0; i < 64; ++i) y[Thread() + i] = held[order[i]];  // a register has no index
}

__global__ void Unbounded(float4* y, const float4* x, int stride) {
  __stwb(y + Thread(), SumOf<4>(x + Thread(), stride));
}
