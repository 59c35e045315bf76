// SPDX-License-Identifier: Apache-2.0
// Looks up rows of a table by their numbers: y[i] = table[index[i]], bit for bit.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. Every index must name a row of the table; it is not checked.
template <typename T>
struct Embedding {
  const T* table = nullptr;
  const int64_t* index = nullptr;  // [rows]
  T* y = nullptr;                  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
};

void Run(const Embedding<float>& work, const ParallelFor& parallel_for);
void Run(const Embedding<Bf16>& work, const ParallelFor& parallel_for);

// y = xᵀ: a transposed copy, for products that read a transposed matrix slower than a copy of it.

struct Transpose {
  const float* x = nullptr;  // [rows, cols]
  float* y = nullptr;        // [cols, rows]; not x
  int64_t rows = 0;
  int64_t cols = 0;
};

void Run(const Transpose& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
