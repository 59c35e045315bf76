// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit activations with int4 weights.
#pragma once

#include "lib/kernels/operators/products/int8_activations.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Activations with one scale per row, which were selected without a threshold and summed by the weight's group:
// integers are multiplied, and the sum of each group of columns is scaled into fp32,
//
//   y[i, j] = x_max[i] / 127 · Σ over g of (scale[j, g] · Σ q[j] · x[i] + (zero[j, g] - 8 · scale[j, g]) · Σ x[i]),
//
// both inner sums over the columns of group g. With few rows of x a tile is unpacked in registers; with many, two tiles
// at a time to bytes in a cache; the whole weight is never unpacked. A row's result does not depend on the other rows.
template <typename Y>
using Int4Product = Int8ActivationProduct<Int4Weight, Y>;

// Rows begin with a tile.
template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows);

}  // namespace roofbench::kernels
