// SPDX-License-Identifier: Apache-2.0
// The loss of a classifier: loss = log(sum(exp(x))) - x[target], row by row, and its gradient
// dx = (softmax(x) - [column = target]) · scale.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. Exponentials, their sum and the loss are fp32. With a gradient, both come from one pass over
// memory. A row with a NaN or +infinity, or of -infinity alone, has NaN as its loss and gradient, as in LibTorch.
template <typename T>
struct CrossEntropy {
  const T* x = nullptr;             // logits
  const int64_t* target = nullptr;  // [rows], each in [0, cols)
  float* loss = nullptr;            // [rows]
  T* gradient = nullptr;            // may be x; nullptr: not wanted
  float scale = 1;                  // of the gradient: 1 / rows where the losses are averaged
  int64_t rows = 0;
  int64_t cols = 0;         // from 1
  int64_t x_stride = cols;  // elements from a row to the next
  int64_t gradient_stride = cols;
};

void Run(const CrossEntropy<float>& work, const ParallelFor& parallel_for);
void Run(const CrossEntropy<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
