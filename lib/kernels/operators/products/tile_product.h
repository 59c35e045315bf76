// SPDX-License-Identifier: Apache-2.0
// Products of many rows with tiles (Intel AMX): y = x · wᵀ in bf16, summed in fp32, and in int8, summed in int32.
//
// A thread computes blocks of y, whose sums stay in its L2 with the packed slabs of x and w that it reads for them. A
// slab is 1 KiB of each row, so that two rows of tiles of each operand, 64 KiB, stay in L1 while they meet; these sizes
// reached 4.2 TFLOP/s in bf16 and 9.1 TOP/s in int8 at n 512 on two cores of a Xeon, where a bare loop of tiles reached
// 7.67 and 15.35 (2026-11-24).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/tile.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// The elements of x and w, of a sum, and of y.
template <TileProduct kProduct>
using TileFactor = std::conditional_t<kProduct == TileProduct::kBf16, Bf16, int8_t>;
template <TileProduct kProduct>
using TileSum = std::conditional_t<kProduct == TileProduct::kBf16, float, int32_t>;
template <TileProduct kProduct>
using TileResult = std::conditional_t<kProduct == TileProduct::kBf16, Bf16, int32_t>;

// A panel is 32 rows of x or w: two tiles for each 64 bytes of a row, its steps.
inline constexpr int64_t kPanelRows = 2 * kTileRows;
inline constexpr int64_t kPanelStepBytes = 2 * kTileBytes;

constexpr int64_t TileSteps(int64_t row_bytes) { return CeilDiv(row_bytes, kTileRowBytes); }

// Bytes of `rows` rows in panels, which PackTileRows and PackTileWeights write.
constexpr int64_t PanelBytes(int64_t rows, int64_t steps) {
  return CeilDiv(rows, kPanelRows) * steps * kPanelStepBytes;
}

// Rows of x as panels: [panel][step][tile][row][64 bytes], zeros beyond `rows` and `row_bytes`.
void PackTileRows(const std::byte* x, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* panels);

// The weight w[n, k] as panels: [panel][step][tile][16][16][4 bytes], where row i of a tile holds group i of each of
// its 16 rows of w.
void PackTileWeights(const std::byte* w, int64_t n, int64_t row_bytes, std::byte* panels, const ParallelFor& parallel);

// Sixteen sums as elements of y.
void StoreTileRow(const float* sums, Bf16* y);
inline void StoreTileRow(const int32_t* sums, int32_t* y) { std::memcpy(y, sums, kTileColumns * sizeof(*y)); }

// The blocks of y[m, n]: squares of at most 256 columns, fewer where all threads would not have several of them.
struct TileBlocks {
  TileBlocks(int64_t m, int64_t n, int threads) {
    constexpr int64_t kLeastBlocks = 4;  // a thread, so that none waits long for the last one
    const auto blocks = [&] { return CeilDiv(m, side) * CeilDiv(n, side); };
    while (side > kPanelRows && blocks() < kLeastBlocks * threads) side /= 2;
    columns = CeilDiv(n, side);
    count = blocks();
  }
  static constexpr int64_t kMostSide = 256;
  int64_t side = kMostSide;
  int64_t columns = 0;  // of blocks
  int64_t count = 0;
};

// A thread's buffers for a block; half a megabyte in all.
template <typename Sum>
struct TileScratch {
  static constexpr int64_t kSlabSteps = 16;
  static constexpr int64_t kPanels = TileBlocks::kMostSide / kPanelRows;
  alignas(kTileRowBytes) std::array<std::byte, kPanels * kSlabSteps * kPanelStepBytes> x;
  // [panel of x][panel of w][tile of x][tile of w][row][column]
  alignas(kTileRowBytes) std::array<Sum, kPanels * kPanels * kPanelRows * kPanelRows> sums;
};

// Adds the products of a panel of x and one of w over `steps` to four tiles of sums.
template <typename Tiles, TileProduct kProduct>
void MultiplyPanels(Tiles& tiles, const std::byte* x, const std::byte* w, int64_t steps, bool first, std::byte* sums) {
  constexpr int64_t kRow = kTileRowBytes;
  constexpr std::ptrdiff_t kTile = kTileBytes;
  if (first) {
    tiles.template Zero<0>();
    tiles.template Zero<1>();
    tiles.template Zero<2>();
    tiles.template Zero<3>();
  } else {
    tiles.template Load<0>(sums, kRow);
    tiles.template Load<1>(sums + kTile, kRow);
    tiles.template Load<2>(sums + 2 * kTile, kRow);
    tiles.template Load<3>(sums + 3 * kTile, kRow);
  }
  for (int64_t step = 0; step < steps; ++step) {
    const std::byte* const x_step = x + step * kPanelStepBytes;
    const std::byte* const w_step = w + step * kPanelStepBytes;
    tiles.template Load<4>(x_step, kRow);
    tiles.template Load<6>(w_step, kRow);
    tiles.template MultiplyAdd<kProduct, 0, 4, 6>();
    tiles.template Load<7>(w_step + kTile, kRow);
    tiles.template MultiplyAdd<kProduct, 1, 4, 7>();
    tiles.template Load<5>(x_step + kTile, kRow);
    tiles.template MultiplyAdd<kProduct, 2, 5, 6>();
    tiles.template MultiplyAdd<kProduct, 3, 5, 7>();
  }
  tiles.template Store<0>(sums, kRow);
  tiles.template Store<1>(sums + kTile, kRow);
  tiles.template Store<2>(sums + 2 * kTile, kRow);
  tiles.template Store<3>(sums + 3 * kTile, kRow);
}

// y[m, n] = x[m, k] · w[n, k]ᵀ; `w`: by PackTileWeights.
template <typename Tiles, TileProduct kProduct>
class TiledProduct {
 public:
  using X = TileFactor<kProduct>;
  using Sum = TileSum<kProduct>;
  using Y = TileResult<kProduct>;

  const X* x = nullptr;
  const std::byte* w = nullptr;
  Y* y = nullptr;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  void operator()(const ParallelFor& parallel) const {
    const TileBlocks blocks(m, n, parallel.threads());
    parallel(blocks.count, [&](Range range) {
      thread_local const std::unique_ptr<Scratch> scratch(new Scratch);  // uninitialized
      Tiles tiles;
      for (int64_t block = range.begin; block < range.end; ++block) {
        const int64_t row = block / blocks.columns * blocks.side;
        const int64_t column = block % blocks.columns * blocks.side;
        Multiply(tiles, {row, std::min(m, row + blocks.side)}, {column, std::min(n, column + blocks.side)}, *scratch);
      }
    });
  }

 private:
  using Scratch = TileScratch<Sum>;

  void Multiply(Tiles& tiles, Range rows, Range columns, Scratch& scratch) const {
    constexpr auto kElement = static_cast<int64_t>(sizeof(X));
    const int64_t row_bytes = k * kElement;
    const int64_t steps = TileSteps(row_bytes);
    const int64_t w_panel = steps * kPanelStepBytes;
    const int64_t x_panels = CeilDiv(rows.size(), kPanelRows);
    const int64_t w_panels = CeilDiv(columns.size(), kPanelRows);
    const auto* const x_bytes = reinterpret_cast<const std::byte*>(x) + rows.begin * row_bytes;
    auto* const sums = reinterpret_cast<std::byte*>(scratch.sums.data());
    for (int64_t step = 0; step < steps; step += Scratch::kSlabSteps) {
      const int64_t slab = std::min(Scratch::kSlabSteps, steps - step);
      const int64_t at = step * kTileRowBytes;
      PackTileRows(x_bytes + at, rows.size(), row_bytes, std::min(row_bytes - at, slab * kTileRowBytes),
                   scratch.x.data());
      for (int64_t j = 0; j < w_panels; ++j) {
        const std::byte* const w_slab = w + (columns.begin / kPanelRows + j) * w_panel + step * kPanelStepBytes;
        for (int64_t i = 0; i < x_panels; ++i) {
          MultiplyPanels<Tiles, kProduct>(tiles, scratch.x.data() + i * slab * kPanelStepBytes, w_slab, slab, step == 0,
                                          sums + (i * Scratch::kPanels + j) * 4 * kTileBytes);
        }
      }
    }
    for (int64_t row = 0; row < rows.size(); ++row) {
      for (int64_t column = 0; column < columns.size(); column += kTileColumns) {
        const int64_t tile = (row / kPanelRows * Scratch::kPanels + column / kPanelRows) * 4 +
                             row % kPanelRows / kTileRows * 2 + column % kPanelRows / kTileColumns;
        const Sum* const from =
            &scratch.sums[static_cast<std::size_t>((tile * kTileRows + row % kTileRows) * kTileColumns)];
        Y* const to = y + (rows.begin + row) * n + columns.begin + column;
        if (columns.size() - column >= kTileColumns) {
          StoreTileRow(from, to);
          continue;
        }
        std::array<Y, kTileColumns> last;
        StoreTileRow(from, last.data());
        std::copy_n(last.begin(), columns.size() - column, to);
      }
    }
  }
};

#if ROOFBENCH_X86
// Whether this process may use the tiles of such a product.
inline bool HasTiles(TileProduct product) { return IsaHas(product == TileProduct::kBf16 ? kAmxBf16 : kAmxInt8); }
template <TileProduct kProduct>
using TileProductHere = TiledProduct<HardwareTiles, kProduct>;
#else
inline bool HasTiles(TileProduct /*product*/) { return false; }
template <TileProduct kProduct>
using TileProductHere = TiledProduct<EmulatedTiles, kProduct>;
#endif

}  // namespace roofbench::kernels
