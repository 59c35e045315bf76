// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit activations with tiles (Intel AMX).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/tile.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// kOfX times 16 rows of x from x_row on with block.panel, whose order is that of a tile's operand: 16 groups of four
// columns for each half of its rows. Tiles of x are loaded from its rows in place.
template <typename Tiles, int kOfX>
void MultiplyTileRows(Tiles& tiles, const Int8Block& block, int64_t x_row) {
  constexpr int64_t kGroupBytes = int64_t{2} * kTileRowBytes;  // of both halves
  const int64_t row_bytes = block.width * int64_t{sizeof(int32_t)};
  int32_t* const products = block.products + x_row * block.width;
  // The panel's elements are 128 too large.
  for (int64_t i = 0; i < kOfX * kTileRows; ++i) {
    std::fill_n(products + i * block.width, kInt8PanelRows, -128 * block.sums[x_row + i]);
  }
  const TileOperand x = {reinterpret_cast<const std::byte*>(block.x + x_row * block.stride), block.stride,
                         kTileRows * block.stride, kTileRowBytes};
  const TileOperand panel = {reinterpret_cast<const std::byte*>(block.panel), kGroupBytes, kTileRowBytes,
                             kTileRows * kGroupBytes};
  MultiplyTiles<Tiles, TileProduct::kInt8ByUint8, kOfX, 2>(
      tiles, x, panel, CeilDiv(block.k, kTileRowBytes), true,
      {reinterpret_cast<std::byte*>(products), row_bytes, kTileRows * row_bytes, kTileRowBytes});
}

// A block with no more rows of x than a panel, whose weight is multiplied as it lies: packing it would cost more than
// it saves.
template <typename Tiles>
void MultiplyFewRowsByTiles(const Int8Block& block) {
  thread_local std::vector<std::byte> packed;  // x
  packed.resize(static_cast<std::size_t>(PanelBytes(block.m, TileSteps(block.stride))));
  PackTileColumns(reinterpret_cast<const std::byte*>(block.x), block.m, block.stride, packed.data(), SerialFor());
  TiledProduct<Tiles, TileProduct::kInt8, TransposedTileOutput<int32_t>>{.x = block.w,
                                                                         .w = packed.data(),
                                                                         .output = {block.products, block.width},
                                                                         .m = block.rows,
                                                                         .n = block.m,
                                                                         .k = block.k}
      .RunRows({0, block.rows});
}

// For int4 weights: for each group of columns, two tiles of whose rows are a panel's.
template <typename Tiles>
void SumInt4GroupsByTiles(const Int4GroupSums& work) {
  constexpr int64_t kGroupBytes = int64_t{2} * kTileRowBytes;
  constexpr auto kRowBytes = kInt8PanelRows * int64_t{sizeof(int32_t)};
  Tiles tiles;
  for (int64_t g = 0; g < work.groups; ++g) {
    const TileOperand x = {reinterpret_cast<const std::byte*>(work.x + g * work.group), work.stride,
                           kTileRows * work.stride, kTileRowBytes};
    const TileOperand panel = {reinterpret_cast<const std::byte*>(work.panel + g * work.panel_group * kInt8PanelRows),
                               kGroupBytes, kTileRowBytes, kTileRows * kGroupBytes};
    const TileSums sums = {reinterpret_cast<std::byte*>(work.sums + g * work.rows * kInt8PanelRows), kRowBytes,
                           kTileRows * kRowBytes, kTileRowBytes};
    const auto multiply = work.rows == kTileRows ? MultiplyTiles<Tiles, TileProduct::kInt8ByUint8, 1, 2>
                                                 : MultiplyTiles<Tiles, TileProduct::kInt8ByUint8, 2, 2>;
    multiply(tiles, x, panel, work.panel_group / kTileRowBytes, false, sums);
  }
}

// As many of the block's rows of x as fill tiles; returns their number. The rest is fewer than 16.
template <typename Tiles>
int64_t MultiplyByTiles(const Int8Block& block) {
  Tiles tiles;
  int64_t row = 0;
  for (; row + 2 * kTileRows <= block.m; row += 2 * kTileRows) MultiplyTileRows<Tiles, 2>(tiles, block, row);
  if (row + kTileRows > block.m) return row;
  MultiplyTileRows<Tiles, 1>(tiles, block, row);
  return row + kTileRows;
}

}  // namespace roofbench::kernels
