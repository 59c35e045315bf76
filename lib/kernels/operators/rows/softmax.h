// SPDX-License-Identifier: Apache-2.0
// y = exp(x - max(x)) / sum(exp(x - max(x))), row by row.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. Exponentials and their sum are fp32. A row with a NaN or +infinity, or of -infinity alone, becomes
// NaN, as LibTorch's does.
template <typename T>
struct Softmax {
  const T* x = nullptr;
  T* y = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t x_stride = cols;  // elements from a row to the next
  int64_t y_stride = cols;
};

void Run(const Softmax<float>& work, const ParallelFor& parallel_for);
void Run(const Softmax<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
