// SPDX-License-Identifier: Apache-2.0
// The multiply-add loop of tiles, over the instructions or their emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/kernels/simd/tile.h"

namespace roofbench::hardware {

inline constexpr int kTileFactors = 2;
inline constexpr int kTileSums = kTileFactors * kTileFactors;
using TileOperands =
    ComputeOperands<std::size_t{kTileFactors} * kernels::kTileBytes, std::size_t{kTileSums} * kernels::kTileBytes>;

constexpr double TileLoopFlops(kernels::TileProduct product) {
  return 2.0 * kTileSums * kernels::TileMultiplyAdds(product);
}

// What TileLoop returns, computed one product at a time in double precision.
double ExpectedOfTiles(kernels::TileProduct product, int64_t iterations, Factors factors);

// In an iteration, each of two tiles of x meets each of two of y: a product takes 16 cycles and its sums are ready
// after 52 (Intel's optimization manual, AMX), so that four independent products keep the unit busy. Returns the sum of
// all elements of the four.
template <typename Tiles, kernels::TileProduct kProduct>
double TileLoop(int64_t iterations, Factors factors) {
  constexpr bool kIsBf16 = kProduct == kernels::TileProduct::kBf16;
  const auto& operands = [&]() -> const TileOperands& {
    if constexpr (kIsBf16) return OperandsOf<TileOperands, Bf16Element>(factors);
    if constexpr (!kIsBf16) return OperandsOf<TileOperands, Int8Element>(factors);
  }();
  constexpr std::ptrdiff_t kBytes = kernels::kTileBytes;
  constexpr int kStride = kernels::kTileRowBytes;
  TileOperands result;
  Tiles tiles;
  tiles.template Load<0>(operands.sums.data(), kStride);
  tiles.template Load<1>(operands.sums.data() + kBytes, kStride);
  tiles.template Load<2>(operands.sums.data() + 2 * kBytes, kStride);
  tiles.template Load<3>(operands.sums.data() + 3 * kBytes, kStride);
  tiles.template Load<4>(operands.x.data(), kStride);
  tiles.template Load<5>(operands.x.data() + kBytes, kStride);
  tiles.template Load<6>(operands.y.data(), kStride);
  tiles.template Load<7>(operands.y.data() + kBytes, kStride);
  for (int64_t i = 0; i < iterations; ++i) {
    tiles.template MultiplyAdd<kProduct, 0, 4, 6>();
    tiles.template MultiplyAdd<kProduct, 1, 4, 7>();
    tiles.template MultiplyAdd<kProduct, 2, 5, 6>();
    tiles.template MultiplyAdd<kProduct, 3, 5, 7>();
  }
  tiles.template Store<0>(result.sums.data(), kStride);
  tiles.template Store<1>(result.sums.data() + kBytes, kStride);
  tiles.template Store<2>(result.sums.data() + 2 * kBytes, kStride);
  tiles.template Store<3>(result.sums.data() + 3 * kBytes, kStride);
  return SumOf<std::conditional_t<kIsBf16, float, int32_t>>(result.sums);
}

}  // namespace roofbench::hardware
