// SPDX-License-Identifier: Apache-2.0
// The gradients of norm.h's norms. With g = dy · weight and u = (x - mean) · rstd (rms norm: x · rstd), row by row:
//
//   layer norm: dx = rstd · (g - mean(g) - u · mean(g · u)), dweight = sum over rows of dy · u, dbias = sum of dy
//   rms norm:   dx = rstd · (g - u · mean(g · u)), dweight the same
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. Arithmetic in fp32. A layer norm has a mean and a dbias, an RMS norm neither.
template <typename T>
struct NormGradient {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* weight = nullptr;  // [cols]
  const float* mean = nullptr;    // [rows], as the forward pass left it; nullptr: an RMS norm
  const float* rstd = nullptr;    // [rows]
  T* dx = nullptr;                // may be dy
  float* dweight = nullptr;       // [cols]
  float* dbias = nullptr;         // [cols]; nullptr: an RMS norm
  float* scratch = nullptr;       // [parallel_for.threads(), 2, cols]: each thread sums its own rows
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t x_stride = cols;  // elements from a row to the next; of dy, too
  int64_t dx_stride = cols;
};

void Run(const NormGradient<float>& work, const ParallelFor& parallel_for);
void Run(const NormGradient<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
