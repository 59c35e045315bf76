// SPDX-License-Identifier: Apache-2.0
// The gate of a GeGLU block (Shazeer, arXiv:2002.05202) with GELU by a tanh: y = gelu(gate) · up,
// gelu(x) = x / 2 · (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/π) · (x + 0.044715 · x³) (Hendrycks and Gimpel,
// arXiv:1606.08415).
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Computes in fp32. T: float or Bf16.
template <typename T>
struct GeluTanhMul {
  const float* gate = nullptr;
  const float* up = nullptr;
  T* y = nullptr;  // may be gate or up, of the same type
  int64_t n = 0;
};

void Run(const GeluTanhMul<float>& work, const ParallelFor& parallel_for);
void Run(const GeluTanhMul<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
