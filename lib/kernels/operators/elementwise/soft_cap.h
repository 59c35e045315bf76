// SPDX-License-Identifier: Apache-2.0
// Scores that a bound bends down before they reach it: y = cap · tanh(scale · x / cap) (Bello et al., arXiv:1611.09940;
// in attention and before the softmax over a vocabulary: Gemma 2, arXiv:2408.00118).
#pragma once

#include <cstdint>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// NaN stays NaN, and what is infinite becomes the bound.
struct SoftCap {
  const float* x = nullptr;
  float* y = nullptr;  // may be x
  int64_t n = 0;
  float cap = 1;  // above zero
  float scale = 1;
};

void Run(const SoftCap& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
