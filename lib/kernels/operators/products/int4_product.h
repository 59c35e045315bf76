// SPDX-License-Identifier: Apache-2.0
// y = x · weightᵀ of int4 weights with 8-bit activations, one scale per row: integers are multiplied, and the sum of
// each group of columns is scaled into fp32,
//
//   y[i, j] = x_max[i] / 127 · Σ over g of (scale[j, g] · Σ q[j] · x[i] + (zero[j, g] - 8 · scale[j, g]) · Σ x[i]),
//
// both inner sums over the columns of group g. With few rows of x a tile is unpacked in registers; with many, two tiles
// at a time to bytes in a cache; the whole weight is never unpacked. A row's result does not depend on the other rows.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// y [m, n] of the x [m, k] in `activations`, which were selected without a threshold and summed by the weight's group.
// Y: float or Bf16.
template <typename Y>
struct Int4Product {
  Int4Weight weight = {};
  const LlmInt8Activations* activations = nullptr;
  Y* y = nullptr;
};

// y[:, rows] alone, on the calling thread; rows begins with a tile.
template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows);
// The whole product.
template <typename Y>
void Run(const Int4Product<Y>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
