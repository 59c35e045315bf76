// SPDX-License-Identifier: Apache-2.0
// y = xᵀ: a copy in the other order, for products that read a transposed matrix slower than they read a copy of it.
#pragma once

#include <cstdint>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

struct Transpose {
  const float* x = nullptr;  // [rows, cols]
  float* y = nullptr;        // [cols, rows]; not x
  int64_t rows = 0;
  int64_t cols = 0;
};

void Run(const Transpose& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
