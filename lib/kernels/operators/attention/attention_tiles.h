// SPDX-License-Identifier: Apache-2.0
// bf16 attention whose products take tiles (Intel AMX); the rest is as with AVX-512. Rows of words are the left operand
// of a tile's product, and packed keys and values the right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/kernels/operators/attention/attention_variant.h"
#include "lib/kernels/simd/tile.h"

namespace roofbench::kernels {

// Of the calling thread. Loading their configuration takes as long as a product of few steps (204 cycles; Intel's
// optimization reference manual), so that it is done for many products.
template <typename Tiles>
inline thread_local std::optional<Tiles> attention_tiles;

template <typename Tiles, int kOfB>
void MultiplyAttentionTiles(const PanelProduct& panel, int64_t vector) {
  constexpr auto kWord = static_cast<int64_t>(sizeof(float));
  const int64_t a_row = panel.a.stride * kWord;
  const int64_t b_row = panel.b.stride * kWord;
  const int64_t c_row = panel.c.stride * kWord;
  const int64_t column = vector * kTileRowBytes;
  MultiplyTiles<Tiles, TileProduct::kBf16, 2, kOfB>(
      attention_tiles<Tiles>.value(),
      {reinterpret_cast<const std::byte*>(panel.a.data), a_row, kTileRows * a_row, kTileRowBytes},
      {reinterpret_cast<const std::byte*>(panel.b.data) + column, b_row, kTileRowBytes, kTileRows * b_row},
      CeilDiv(panel.steps, kTileColumns), panel.add,
      {reinterpret_cast<std::byte*>(panel.c.data) + column, c_row, kTileRows * c_row, kTileRowBytes});
}

template <typename Tiles>
void MultiplyAttentionPanel(const PanelProduct& panel) {
  int64_t vector = 0;
  for (; vector + 2 <= panel.vectors; vector += 2) MultiplyAttentionTiles<Tiles, 2>(panel, vector);
  if (vector < panel.vectors) MultiplyAttentionTiles<Tiles, 1>(panel, vector);
}

// Needs kAvx512Bf16, and what Tiles need.
template <typename Tiles>
AttentionVariant<Bf16> TiledAttentionVariant() {
  AttentionVariant<Bf16> variant = avx512::Bf16AttentionVariant();
  variant.rows_at_once = int64_t{2} * kTileRows;
  variant.steps_at_once = kTileColumns;
  variant.product = MultiplyAttentionPanel<Tiles>;
  variant.begin_products = [] { attention_tiles<Tiles>.emplace(); };
  variant.end_products = [] { attention_tiles<Tiles>.reset(); };
  return variant;
}

}  // namespace roofbench::kernels
