// SPDX-License-Identifier: Apache-2.0
// One step of AdamW over any number of tensors (Loshchilov and Hutter 2019, algorithm 2, as LibTorch computes it):
//
//   p = p · (1 - lr · weight_decay)
//   m = m + (g - m) · (1 - beta1)         v = v · beta2 + g² · (1 - beta2)
//   p = p - lr / (1 - beta1^t) · m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
#pragma once

#include <cstdint>
#include <span>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// One tensor and its state, all fp32 of `n` elements. All but the gradient are updated in place.
struct AdamWTensor {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* mean = nullptr;    // m: of the gradients
  float* square = nullptr;  // v: of their squares
  int64_t n = 0;
};

struct AdamW {
  std::span<const AdamWTensor> tensors;
  int64_t step = 1;  // t: 1 in the first step
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

void Run(const AdamW& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
