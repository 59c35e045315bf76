// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit activations with tiles (Intel AMX).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/kernels/operators/products/llm_int8_variant.h"
#include "lib/kernels/simd/tile.h"

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
  auto* const sums = reinterpret_cast<std::byte*>(products);
  tiles.template Load<0>(sums, row_bytes);
  tiles.template Load<1>(sums + kTileRowBytes, row_bytes);
  if constexpr (kOfX == 2) {
    tiles.template Load<2>(sums + kTileRows * row_bytes, row_bytes);
    tiles.template Load<3>(sums + kTileRows * row_bytes + kTileRowBytes, row_bytes);
  }
  const auto* x = reinterpret_cast<const std::byte*>(block.x + x_row * block.stride);
  const auto* panel = reinterpret_cast<const std::byte*>(block.panel);
  for (int64_t i = 0; i < block.k; i += kTileRowBytes, x += kTileRowBytes, panel += kTileRows * kGroupBytes) {
    tiles.template Load<4>(x, block.stride);
    tiles.template Load<6>(panel, kGroupBytes);
    tiles.template MultiplyAdd<TileProduct::kInt8ByUint8, 0, 4, 6>();
    tiles.template Load<7>(panel + kTileRowBytes, kGroupBytes);
    tiles.template MultiplyAdd<TileProduct::kInt8ByUint8, 1, 4, 7>();
    if constexpr (kOfX == 2) {
      tiles.template Load<5>(x + kTileRows * block.stride, block.stride);
      tiles.template MultiplyAdd<TileProduct::kInt8ByUint8, 2, 5, 6>();
      tiles.template MultiplyAdd<TileProduct::kInt8ByUint8, 3, 5, 7>();
    }
  }
  tiles.template Store<0>(sums, row_bytes);
  tiles.template Store<1>(sums + kTileRowBytes, row_bytes);
  if constexpr (kOfX == 2) {
    tiles.template Store<2>(sums + kTileRows * row_bytes, row_bytes);
    tiles.template Store<3>(sums + kTileRows * row_bytes + kTileRowBytes, row_bytes);
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
