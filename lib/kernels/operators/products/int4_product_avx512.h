// SPDX-License-Identifier: Apache-2.0
// Products of one or two int4 tiles, for int4_product.cc to choose its variant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {

// Rows of a weight that are unpacked together: two tiles.
inline constexpr int64_t kInt4PanelRows = 2 * kInt4TileRows;

// y[i · y_stride + j] for m rows of x and `rows` of a tile or a panel.
template <typename Y>
struct Int4Block {
  const std::byte* tile = nullptr;
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

// What int4_product.cc needs of an instruction set. Both products give the same numbers.
template <typename Y>
struct Int4Variant {
  void (*few_rows)(const Int4Block<Y>& block) = nullptr;  // of a tile
  // One tile into its half of a panel and of the panel's scales. Null where many rows of x go as few do.
  void (*unpack)(const Int4Weight& weight, int64_t tile, int64_t half, uint8_t* panel, float* scales) = nullptr;
  void (*many_rows)(const Int4Block<Y>& block) = nullptr;  // of a panel
};

#if ROOFBENCH_X86
// Y: float or Bf16. Needs kAvx512Vnni.
template <typename Y>
const Int4Variant<Y>& Avx512Int4Variant();
extern template const Int4Variant<float>& Avx512Int4Variant();
extern template const Int4Variant<Bf16>& Avx512Int4Variant();
#endif

}  // namespace roofbench::kernels
