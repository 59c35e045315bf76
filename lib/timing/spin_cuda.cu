// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/spin_cuda.h"

#include <cuda/ptx>

#include <algorithm>

namespace roofbench::timing {
namespace {

using cuda::ptx::get_sreg_globaltimer;

constexpr double kMostSeconds = 0.1;
// No GPU has a faster clock. The cycles of the requested time at this rate take at least that time, and bound the loop
// if the timer does not advance.
constexpr double kFastestHertz = 4e9;

__global__ void __launch_bounds__(1) Spin(uint64_t nanoseconds, long long most_cycles, SpinReading* reading) {
  const uint64_t start = get_sreg_globaltimer();
  const long long first_cycle = clock64();
  uint64_t passed = 0;
  long long cycles = 0;
  while (passed < nanoseconds && cycles < most_cycles) {
    passed = get_sreg_globaltimer() - start;
    cycles = clock64() - first_cycle;
  }
  if (reading != nullptr) *reading = {cycles, static_cast<int64_t>(passed)};
}

}  // namespace

cudaError_t LaunchSpin(double seconds, cudaStream_t stream) { return LaunchSpin(seconds, stream, nullptr); }

cudaError_t LaunchSpin(double seconds, cudaStream_t stream, SpinReading* reading) {
  const double bounded = std::min(std::max(seconds, 0.0), kMostSeconds);
  auto nanoseconds = static_cast<uint64_t>(bounded * 1e9);
  auto most_cycles = static_cast<long long>(bounded * kFastestHertz);
  void* arguments[] = {&nanoseconds, &most_cycles, &reading};
  const cudaError_t launched = cudaLaunchKernel(Spin, dim3(1), dim3(1), arguments, 0, stream);
  const cudaError_t last = cudaGetLastError();  // clears the error: the next call of the runtime is not at fault
  return launched == cudaSuccess ? last : launched;
}

}  // namespace roofbench::timing
