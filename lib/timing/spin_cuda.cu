// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/spin_cuda.h"

#include <algorithm>

#include "lib/kernels/cuda/launch_cuda.cuh"

namespace roofbench::timing {
namespace {

constexpr double kMostSeconds = 0.1;
// No GPU runs faster: this many cycles are over at the latest when the time is, should the timer stand still.
constexpr double kFastestHertz = 4e9;

__device__ unsigned long long Nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void Spin(unsigned long long nanoseconds, long long most_cycles) {
  const unsigned long long start = Nanoseconds();
  const long long first_cycle = clock64();
  while (Nanoseconds() - start < nanoseconds && clock64() - first_cycle < most_cycles) {
  }
}

}  // namespace

cudaError_t LaunchSpin(double seconds, cudaStream_t stream) {
  const double bounded = std::min(std::max(seconds, 0.0), kMostSeconds);
  return kernels::Launch(Spin, 1, 1, stream, static_cast<unsigned long long>(bounded * 1e9),
                         static_cast<long long>(bounded * kFastestHertz));
}

}  // namespace roofbench::timing
