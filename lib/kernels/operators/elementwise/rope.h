// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., arXiv:2104.09864) in the half-split layout: element i of a row and element i +
// cols/2 form a pair, which is rotated by its angle.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// y[i] = x[i] · cos - x[i + cols/2] · sin, y[i + cols/2] = x[i + cols/2] · cos + x[i] · sin, in fp32. T: float or Bf16.
// Row r (one head of one token) stands at position r % positions.
template <typename T>
struct Rope {
  const T* x = nullptr;
  T* y = nullptr;                  // may be x
  const float* cosines = nullptr;  // [positions, cols/2]
  const float* sines = nullptr;    // as cosines
  int64_t rows = 0;
  int64_t positions = 0;
  int64_t cols = 0;         // even
  int64_t x_stride = cols;  // elements from a row to the next
  int64_t y_stride = cols;
};

void Run(const Rope<float>& work, const ParallelFor& parallel_for);
void Run(const Rope<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
