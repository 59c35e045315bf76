// SPDX-License-Identifier: Apache-2.0
// A product of unpacked int4 tiles, for int4_product.cc to choose its way.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {

// Rows of a weight that are unpacked together: two tiles.
inline constexpr int64_t kInt4PanelRows = 2 * kInt4TileRows;

// y[i · y_stride + j] for m rows of x and `rows` of the panel.
template <typename Y>
struct Int4Block {
  const uint8_t* panel = nullptr;  // q: [k / 4, kInt4PanelRows, 4], on a line
  const float* scales = nullptr;   // [k / group, 2, kInt4PanelRows]: scale, and zero - 8 · scale; on a line
  int64_t rows = 0;
  int64_t k = 0;
  int64_t group = 0;
  const int8_t* x = nullptr;  // [m, stride]
  int64_t stride = 0;
  const float* x_sums = nullptr;  // [m, k / group]
  const float* x_max = nullptr;   // [m]
  int64_t m = 0;
  Y* y = nullptr;
  int64_t y_stride = 0;
};

#if ROOFBENCH_X86
namespace avx512 {
// Needs kAvx512Vnni.
void MultiplyInt4(const Int4Block<float>& block);
void MultiplyInt4(const Int4Block<Bf16>& block);
}  // namespace avx512
#endif

}  // namespace roofbench::kernels
