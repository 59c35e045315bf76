// SPDX-License-Identifier: Apache-2.0
// Weights of int4 tiles as plain rows, for products with more vectors than Gemv is meant for.
#pragma once

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Rows of tiles [tiles.begin, tiles.end), one after another: to[(row - 16 · tiles.begin) · k + j] = w[row, j], on the
// calling thread. Tiles are whole, beyond weight.n too. T: float or Bf16.
void UnpackInt4(const Int4Weight& weight, Range tiles, float* to);
void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to);

}  // namespace roofbench::kernels
