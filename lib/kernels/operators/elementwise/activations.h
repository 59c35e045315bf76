// SPDX-License-Identifier: Apache-2.0
// The activation y = x · Φ(x), Φ the distribution function of the normal distribution (Hendrycks and Gimpel,
// arXiv:1606.08415), exact rather than by a tanh, and its gradient.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Computes in fp32. T: float or Bf16. The result keeps its digits far below zero, where 1 + erf loses all of them, and
// is infinite at infinity, where LibTorch 2.11's vectors return NaN.
template <typename T>
struct Gelu {
  const T* x = nullptr;
  T* y = nullptr;  // may be x
  int64_t n = 0;
};

// From dy: dx = dy · (Φ(x) + x · φ(x)), φ the density of the normal distribution. Types as above; infinite x give NaNs.
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

// The gate of a SwiGLU block: y = silu(gate) · up, silu(x) = x / (1 + exp(-x)), element by element, and its gradient.

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

// The gate of a GeGLU block (Shazeer, arXiv:2002.05202) with GELU by a tanh: y = gelu(gate) · up,
// gelu(x) = x / 2 · (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/π) · (x + 0.044715 · x³) (Hendrycks and Gimpel,
// arXiv:1606.08415).

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

// A soft cap on scores: y = cap · tanh(scale · x / cap) (Bello et al., arXiv:1611.09940; in attention and before the
// softmax over a vocabulary: Gemma 2, arXiv:2408.00118).

// NaN stays NaN, and infinite scores become ±cap.
struct SoftCap {
  const float* x = nullptr;
  float* y = nullptr;  // may be x
  int64_t n = 0;
  float cap = 1;  // above zero
  float scale = 1;
};

void Run(const SoftCap& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
