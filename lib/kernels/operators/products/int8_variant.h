// SPDX-License-Identifier: Apache-2.0
// The interface of products with 8-bit activations to an instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/kernels/operators/products/int4_product.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/tile.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Rows of a weight whose products with few rows of x are computed before they are dequantized.
inline constexpr int64_t kInt8BlockRows = 64;
// As many make the streams of a single row's product long, unless outliers are gathered.
inline constexpr int64_t kInt8LongBlockRows = 1024;

// From this many rows of x on, panels of the weight are packed: their sums come out in the order of y, where vectors of
// columns of x have to be transposed (two cores of a Zen 4, a quarter of Llama-3.2-1B, 2026-11-29: a prompt of 1024
// tokens took 0.91 s by panels and 1.04 by vectors, one of 128 the same; 64 rows of 4096 x 4096 2.95 and 2.6 ms).
inline constexpr int64_t kManyInt8Rows = 128;

// products[i · width + j] = Σ x[i] · w[j] for m rows of x and `rows` of w.
struct Int8Block {
  const int8_t* w = nullptr;       // [rows, k]
  const uint8_t* panel = nullptr;  // the same in the order of Int8Variant::pack
  int64_t rows = 0;
  int64_t k = 0;
  const int8_t* x = nullptr;  // [m, stride], zeros from k to a multiple of 64
  int64_t stride = 0;
  const int32_t* sums = nullptr;            // [m]: of the rows of x
  const std::byte* tile_columns = nullptr;  // x as the columns of tiles (PackTileColumns, or PackFewColumns)
  bool few_columns = false;
  int64_t m = 0;
  int32_t* products = nullptr;
  int64_t width = 0;
  // For a variant that sums outliers: outlier_sums[i · width + j] = Σ x[i] · w[j] over the columns of the groups.
  std::span<const int32_t> outlier_groups = {};  // the first columns of OutlierGroups
  const float* outlier_x = nullptr;              // [m, groups, OutlierGroups::kColumns]
  float* outlier_sums = nullptr;
};

struct Int8Variant {
  // Returns the largest magnitude of x[k] below `threshold`; sets bit i % 64 of outliers[i / 64] where one reaches
  // it. Threshold 0: of all.
  float (*largest)(const Bf16* x, int64_t k, float threshold, uint64_t* outliers);
  // round(x · inverse), to even and within ±127, where |x| is below `threshold` (0: of all), and 0 elsewhere. Returns
  // the sum. Infinities and NaNs saturate.
  int32_t (*quantize)(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to);
  void (*few_rows)(const Int8Block& block);            // where by_tiles takes the others, a single row of x
  int64_t most_outlier_rows = 0;                       // with up to as many rows of x, few_rows also sums outliers
  void (*by_tiles)(const Int8Block& block) = nullptr;  // null where many rows of x are treated as few
  int64_t most_few_columns = 0;                        // rows of x that are packed by PackFewColumns
  // Rows of a weight that stay in an L2 for all rows of x, and of these, whole panels, those whose products with them
  // stay there until they are dequantized.
  int64_t tile_block_rows = 0;
  int64_t tile_rows_at_once = 0;
  // Null where tiles take all numbers of rows, or none. A panel has kInt8PanelRows · (k rounded up to 64) bytes.
  void (*pack)(const int8_t* w, int64_t rows, int64_t k, uint8_t* panel) = nullptr;
  void (*many_rows)(const Int8Block& block) = nullptr;

  bool TakesPanels(int64_t rows) const { return pack != nullptr && rows >= kManyInt8Rows; }
  bool TakesTiles(int64_t rows) const { return by_tiles != nullptr && rows > 1 && !TakesPanels(rows); }
};

const Int8Variant& BestInt8Variant();
#if ROOFBENCH_X86
const Int8Variant& Avx512Int8Variant();  // needs kAvx512Vnni
const Int8Variant& AmxInt8Variant();     // needs kAmxInt8 and kAvx512Vnni
#endif

// Dequantizes products in a cache: y[i · y_stride + j] = products[i · width + j] · x_max[i] / (127 · w_steps) ·
// w_max[j] + outlier_sums[i · width + j] · w_max[j] / w_steps + Σ outlier_x[i, o] · outlier_w[o, j].
template <typename Y>
struct Int8Dequantized {
  const int32_t* products = nullptr;
  int64_t width = 0;
  int64_t rows = 0;              // of the weight: j
  const float* x_max = nullptr;  // [m]
  const float* w_max = nullptr;  // [rows]
  float w_steps = kInt8Largest;
  const float* outlier_sums = nullptr;  // [m, width], to be scaled by w_max[j] / w_steps; null: none
  int64_t outliers = 0;
  const float* outlier_x = nullptr;  // [m, outliers]
  const float* outlier_w = nullptr;  // [outliers, width]
  Y* y = nullptr;
  int64_t y_stride = 0;
};

// Groups whose sums of 32 rows stay in a first-level cache until they are scaled.
inline constexpr int64_t kSummedGroups = 4;

// sums[g, i, j] = Σ x[i] · q[j] over the columns of group g, for `rows` rows of x and kInt8PanelRows of an int4 weight.
struct Int4GroupSums {
  const int8_t* x = nullptr;  // [rows, stride]
  int64_t stride = 0;
  int64_t rows = 0;  // 16 or 32
  int64_t groups = 0;
  int64_t group = 0;
  const uint8_t* panel = nullptr;  // [groups, panel_group / 4, kInt8PanelRows, 4], zeros from `group` on
  int64_t panel_group = 0;         // a multiple of 64
  int32_t* sums = nullptr;         // [kSummedGroups, rows, kInt8PanelRows]
};
// Calls summed(some) with each kSummedGroups of them, of which `sums` holds the sums.
using SumInt4Groups = void (*)(const Int4GroupSums& work, FunctionRef<void(Range some)> summed);

// RunRows whose rows of x are summed by `sum` where they fill tiles. Null: without tiles.
template <typename Y>
void RunRowsByTiles(const Int4Product<Y>& work, Range rows, SumInt4Groups sum);

// Splits rows of x into groups of at most `most`, as even as possible: `by_count[c - 1]` takes c of them.
template <typename Block>
void InGroups(const Block& block, int64_t most, void (*const* by_count)(const Block& block, int64_t x_row)) {
  const int64_t groups = (block.m + most - 1) / most;
  for (int64_t group = 0; group < groups; ++group) {
    const Range rows = Share(block.m, 1, static_cast<int>(group), static_cast<int>(groups));
    by_count[rows.size() - 1](block, rows.begin);
  }
}

}  // namespace roofbench::kernels
