// SPDX-License-Identifier: Apache-2.0
// Kernels that are wrong, each in one way, for the tests of the machine.
#pragma once

#include <cuda_runtime_api.h>

namespace roofbench::emulated {

inline constexpr int kFaultyThreads = 64;
inline constexpr int kReductionThreads = 256;

// y[i] = x[kFaultyThreads - 1 - i], by shared memory; without the barrier between its two halves if `racy`.
cudaError_t LaunchReverse(float* y, const float* x, bool racy);
// y[i] = sums of 2 halves of x, one after another in the same shared memory; without the barrier between them if
// `racy`.
cudaError_t LaunchTwoSums(float* y, const float* x, bool racy);
// The same with kReductionThreads threads, whose warps add by shuffles before they add by shared memory.
cudaError_t LaunchTwoReductions(float* y, const float* x, bool racy);
// Not on the caller's stream.
cudaError_t LaunchOnTheDefaultStream();
// Only the first threads come to a barrier.
cudaError_t LaunchHalfABarrier(int threads_at_it);
// Two halves of the block wait at two barriers.
cudaError_t LaunchTwoBarriers();
// One lane stays away from a shuffle of all.
cudaError_t LaunchLonelyShuffle();
// y = a vector of four from x.
cudaError_t LaunchLoadOfFour(float* y, const float* x);

}  // namespace roofbench::emulated
