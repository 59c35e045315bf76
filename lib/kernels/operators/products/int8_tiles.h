// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit activations with tiles (Intel AMX).
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/tile.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

template <typename Tiles>
void MultiplyInt8ByTiles(const Int8Block& block) {
  TiledProduct<Tiles, TileProduct::kInt8, TransposedTileOutput<int32_t>>{.x = block.w,
                                                                         .w = block.tile_columns,
                                                                         .output = {block.products, block.width},
                                                                         .m = block.rows,
                                                                         .n = block.m,
                                                                         .k = block.k,
                                                                         .few = block.few_columns}
      .RunRows({0, block.rows});
}

// For int4 weights: for each group of columns, two tiles of whose rows are a panel's.
template <typename Tiles>
void SumInt4GroupsByTiles(const Int4GroupSums& work, FunctionRef<void(Range some)> summed) {
  constexpr int64_t kGroupBytes = int64_t{2} * kTileRowBytes;
  constexpr auto kRowBytes = kInt8PanelRows * int64_t{sizeof(int32_t)};
  Tiles tiles;
  for (int64_t g = 0; g < work.groups; ++g) {
    const TileOperand x = {reinterpret_cast<const std::byte*>(work.x + g * work.group), work.stride,
                           kTileRows * work.stride, kTileRowBytes};
    const TileOperand panel = {reinterpret_cast<const std::byte*>(work.panel + g * work.panel_group * kInt8PanelRows),
                               kGroupBytes, kTileRowBytes, kTileRows * kGroupBytes};
    const int64_t at = g % kSummedGroups;
    const TileSums sums = {reinterpret_cast<std::byte*>(work.sums + at * work.rows * kInt8PanelRows), kRowBytes,
                           kTileRows * kRowBytes, kTileRowBytes};
    const auto multiply = work.rows == kTileRows ? MultiplyTiles<Tiles, TileProduct::kInt8ByUint8, 1, 2>
                                                 : MultiplyTiles<Tiles, TileProduct::kInt8ByUint8, 2, 2>;
    multiply(tiles, x, panel, work.panel_group / kTileRowBytes, false, sums, nullptr);
    if (at == kSummedGroups - 1 || g == work.groups - 1) summed({g - at, g + 1});
  }
}

}  // namespace roofbench::kernels
