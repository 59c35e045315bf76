// SPDX-License-Identifier: Apache-2.0
// Normalization of rows in Transformers.
//
//   layer norm: y = (x - mean(x)) / sqrt(var(x) + eps) · weight + bias, var over n (Ba et al. 2016)
//   rms norm:   y = x / sqrt(mean(x²) + eps) · weight                   (Zhang and Sennrich 2019)
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. Arithmetic in fp32. Where the mean is large compared with the deviation, the row is read a second
// time (from the cache) about its mean, to avoid cancellation.
template <typename T>
struct LayerNorm {
  const T* x = nullptr;
  T* y = nullptr;
  const float* weight = nullptr;  // [cols]
  const float* bias = nullptr;    // [cols]
  int64_t rows = 0;
  int64_t cols = 0;
  float eps = 1e-5F;
};

// X and Y as T; or X float and Y Bf16, for a residual stream whose norms are rounded.
template <typename X, typename Y = X>
struct RmsNorm {
  const X* x = nullptr;
  Y* y = nullptr;
  const float* weight = nullptr;
  float* rstd = nullptr;  // [rows], for the backward pass; nullptr: not wanted
  int64_t rows = 0;
  int64_t cols = 0;
  float eps = 1e-6F;
};

void Run(const LayerNorm<float>& work, const ParallelFor& parallel_for);
void Run(const LayerNorm<Bf16>& work, const ParallelFor& parallel_for);
void Run(const RmsNorm<float>& work, const ParallelFor& parallel_for);
void Run(const RmsNorm<Bf16>& work, const ParallelFor& parallel_for);
void Run(const RmsNorm<float, Bf16>& work, const ParallelFor& parallel_for);

// The gradients of both norms. With g = dy · weight and u = (x - mean) · rstd (rms norm: x · rstd), row by row:
//
//   layer norm: dx = rstd · (g - mean(g) - u · mean(g · u)), dweight = sum over rows of dy · u, dbias = sum of dy
//   rms norm:   dx = rstd · (g - u · mean(g · u)), dweight the same

// T: float or Bf16. Arithmetic in fp32. A layer norm has a mean and a dbias, an RMS norm neither.
template <typename T>
struct NormGradient {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* weight = nullptr;  // [cols]
  const float* mean = nullptr;    // [rows]; nullptr: an RMS norm
  const float* rstd = nullptr;    // [rows]
  T* dx = nullptr;                // may be dy
  float* dweight = nullptr;       // [cols]
  float* dbias = nullptr;         // [cols]; nullptr: an RMS norm
  float* scratch = nullptr;       // [parallel_for.threads(), 2, cols]: each thread sums its own rows
  int64_t rows = 0;
  int64_t cols = 0;
};

void Run(const NormGradient<float>& work, const ParallelFor& parallel_for);
void Run(const NormGradient<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
