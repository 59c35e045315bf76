// SPDX-License-Identifier: Apache-2.0
// Softmax, and the loss of a classifier (cross entropy), row by row.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// y = exp(x - max(x)) / sum(exp(x - max(x))). T: float or Bf16. Exponentials and their sum are fp32. A row with a NaN
// or +infinity, or of -infinity alone, becomes NaN, as LibTorch's does.
template <typename T>
struct Softmax {
  const T* x = nullptr;
  T* y = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};

void Run(const Softmax<float>& work, const ParallelFor& parallel_for);
void Run(const Softmax<Bf16>& work, const ParallelFor& parallel_for);

// loss = log(sum(exp(x))) - x[target], and its gradient dx = (softmax(x) - [column = target]) · scale. T: float or
// Bf16. Exponentials, their sum and the loss are fp32. With a gradient, both come from one pass over memory. A row with
// a NaN or +infinity, or of -infinity alone, has NaN as its loss and gradient, as in LibTorch.
template <typename T>
struct CrossEntropy {
  const T* x = nullptr;             // logits
  const int64_t* target = nullptr;  // [rows], each in [0, cols)
  float* loss = nullptr;            // [rows]
  T* gradient = nullptr;            // may be x; nullptr: not wanted
  float scale = 1;                  // of the gradient: 1 / rows where the losses are averaged
  int64_t rows = 0;
  int64_t cols = 0;  // from 1
};

void Run(const CrossEntropy<float>& work, const ParallelFor& parallel_for);
void Run(const CrossEntropy<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
