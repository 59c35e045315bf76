// SPDX-License-Identifier: Apache-2.0
// The gate of a SwiGLU block: y = silu(gate) · up, silu(x) = x / (1 + exp(-x)), element by element, and its gradient.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Computes in fp32. X and Y: the same, float or Bf16; or X float and Y Bf16.
template <typename X, typename Y = X>
struct SiluMul {
  const X* gate;
  const X* up;
  Y* y;  // may be gate or up, of the same type
  int64_t n = 0;
};

// From dy: d_up = dy · silu(gate) and d_gate = dy · up · (s + silu(gate) · (1 - s)), s = 1 / (1 + exp(-gate)). T:
// float or Bf16.
template <typename T>
struct SiluMulGradient {
  const T* gate;
  const T* up;
  const T* dy;
  T* d_gate;  // may be gate, up or dy, and so may d_up
  T* d_up;
  int64_t n = 0;
};

void Run(const SiluMul<float>& work, const ParallelFor& parallel_for);
void Run(const SiluMul<Bf16>& work, const ParallelFor& parallel_for);
void Run(const SiluMul<float, Bf16>& work, const ParallelFor& parallel_for);
void Run(const SiluMulGradient<float>& work, const ParallelFor& parallel_for);
void Run(const SiluMulGradient<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
