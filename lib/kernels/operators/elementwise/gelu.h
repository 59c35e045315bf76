// SPDX-License-Identifier: Apache-2.0
// The activation y = x · Φ(x), Φ the distribution function of the normal distribution (Hendrycks and Gimpel,
// arXiv:1606.08415), exact rather than by a tanh, and its gradient.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Computes in fp32. T: float or Bf16. The result keeps its digits far below zero, where 1 + erf has none left, and is
// infinite at infinity, where the vectors of LibTorch 2.11 answer with a NaN.
template <typename T>
struct Gelu {
  const T* x = nullptr;
  T* y = nullptr;  // may be x
  int64_t n = 0;
};

// From dy: dx = dy · (Φ(x) + x · φ(x)), φ the density of the normal distribution. Likewise; infinite x give NaNs.
template <typename T>
struct GeluGradient {
  const T* x = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;  // may be x or dy
  int64_t n = 0;
};

void Run(const Gelu<float>& work, const ParallelFor& parallel_for);
void Run(const Gelu<Bf16>& work, const ParallelFor& parallel_for);
void Run(const GeluGradient<float>& work, const ParallelFor& parallel_for);
void Run(const GeluGradient<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
