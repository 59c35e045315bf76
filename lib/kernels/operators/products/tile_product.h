// SPDX-License-Identifier: Apache-2.0
// Products of many rows with tiles (Intel AMX): y = x · wᵀ in bf16, summed in fp32, and in int8, summed in int32.
//
// Operands are rows of k elements. Those whose rows are the tiles' rows stay as they lie, and are copied a slab at a
// time (PackTileRows); those whose rows are the tiles' columns are packed before (PackTileColumns). A weight may be
// either: packed once in TiledProduct, in place in TileLinear, which packs x.
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

// Bytes of `rows` rows in panels, which PackTileRows and PackTileColumns write.
constexpr int64_t PanelBytes(int64_t rows, int64_t steps) {
  return CeilDiv(rows, kPanelRows) * steps * kPanelStepBytes;
}

// Rows of x as panels: [panel][step][tile][row][64 bytes], zeros beyond `rows` and `row_bytes`.
void PackTileRows(const std::byte* x, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* panels);

// Rows of w, without gaps, as the columns of tiles: [panel][step][tile][16][16][4 bytes], where row i of a tile holds
// group i of each of its 16 rows of w.
void PackTileColumns(const std::byte* w, int64_t rows, int64_t row_bytes, std::byte* panels,
                     const ParallelFor& parallel);

// The same of matrices that lie transposed: x [rows, columns] as the panels of xᵀ, and w of wᵀ. Two rows at a time
// become the pairs of elements that a tile multiplies.
void PackTurnedTileRows(const Bf16* x, int64_t rows, int64_t columns, int64_t row_stride, std::byte* panels);
void PackTurnedTileColumns(const Bf16* w, int64_t rows, int64_t columns, std::byte* panels,
                           const ParallelFor& parallel);

// to[j][i] = from[i][j] for 16 rows of 16 words, `row_stride` bytes apart in `from`.
void TransposeTile(const std::byte* from, int64_t row_stride, std::byte* to);

// Sixteen sums as elements of y.
void StoreTileRow(const float* sums, Bf16* y);
template <typename Sum>
void StoreTileRow(const Sum* sums, Sum* y) {
  std::memcpy(y, sums, kTileColumns * sizeof(*y));
}

// The first rows and columns of a tile of sums as a part of y, whose rows are `stride` elements apart.
template <typename Sum, typename Y>
void StoreTile(const Sum* sums, int64_t rows, int64_t columns, Y* y, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, sums += kTileColumns, y += stride) {
    if (columns == kTileColumns) {
      StoreTileRow(sums, y);
      continue;
    }
    std::array<Y, kTileColumns> last;
    StoreTileRow(sums, last.data());
    std::copy_n(last.begin(), columns, y);
  }
}

// Where the sums of x · wᵀ go: the tile that begins at (row, column), of which the first rows and columns exist.
template <typename Y>
struct TileOutput {
  Y* y = nullptr;      // [m, n]
  int64_t stride = 0;  // n

  template <typename Sum>
  void Store(const Sum* sums, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    StoreTile(sums, rows, columns, y + row * stride + column, stride);
  }
};

// The same for y [n, m], with a bias for each row of x.
template <typename Y>
struct TransposedTileOutput {
  Y* y = nullptr;
  int64_t stride = 0;          // m
  const Bf16* bias = nullptr;  // [m], or none; of sums in fp32

  template <typename Sum>
  void Store(const Sum* sums, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    alignas(kTileRowBytes) std::array<Sum, kTileRows * kTileColumns> turned;
    TransposeTile(reinterpret_cast<const std::byte*>(sums), kTileRowBytes, reinterpret_cast<std::byte*>(turned.data()));
    if (bias != nullptr) {
      std::array<float, kTileRows> added = {};
      std::transform(bias + row, bias + row + rows, added.begin(), [](Bf16 value) { return ToFloat(value); });
      for (std::size_t i = 0; i < turned.size(); ++i) turned[i] += static_cast<Sum>(added[i % kTileRows]);
    }
    StoreTile(turned.data(), columns, rows, y + column * stride + row, stride);
  }
};

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

// x[m, k] · w[n, k]ᵀ; `w`: by PackTileColumns.
template <typename Tiles, TileProduct kProduct, typename Output = TileOutput<TileResult<kProduct>>>
class TiledProduct {
 public:
  using X = TileFactor<kProduct>;
  using Sum = TileSum<kProduct>;

  const X* x = nullptr;
  const std::byte* w = nullptr;
  Output output;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool x_turned = false;  // x lies as [k, m]; in bf16

  void operator()(const ParallelFor& parallel) const {
    const TileBlocks blocks(m, n, parallel.threads());
    parallel(blocks.count, [&](Range range) {
      Tiles tiles;
      for (int64_t block = range.begin; block < range.end; ++block) {
        const int64_t row = block / blocks.columns * blocks.side;
        const int64_t column = block % blocks.columns * blocks.side;
        Multiply(tiles, {row, std::min(m, row + blocks.side)}, {column, std::min(n, column + blocks.side)});
      }
    });
  }

  // Some rows of x, on the calling thread.
  void RunRows(Range rows) const {
    constexpr int64_t kSide = TileBlocks::kMostSide;
    Tiles tiles;
    for (int64_t row = rows.begin; row < rows.end; row += kSide) {
      for (int64_t column = 0; column < n; column += kSide) {
        Multiply(tiles, {row, std::min(rows.end, row + kSide)}, {column, std::min(n, column + kSide)});
      }
    }
  }

 private:
  using Scratch = TileScratch<Sum>;

  static TileOperand Panel(const std::byte* data) {
    return {.data = data, .row = kTileRowBytes, .second = kTileBytes, .step = kPanelStepBytes};
  }

  static constexpr auto kElement = static_cast<int64_t>(sizeof(X));

  // Some steps of some rows of x.
  void PackSlab(Range rows, int64_t step, int64_t steps, std::byte* panels) const {
    const int64_t begin = step * kTileRowBytes / kElement;
    const int64_t count = std::min(k - begin, steps * kTileRowBytes / kElement);
    if constexpr (kProduct == TileProduct::kBf16) {
      if (x_turned) return PackTurnedTileRows(x + begin * m + rows.begin, count, rows.size(), m, panels);
    }
    PackTileRows(reinterpret_cast<const std::byte*>(x + rows.begin * k + begin), rows.size(), k * kElement,
                 count * kElement, panels);
  }

  void Multiply(Tiles& tiles, Range rows, Range columns) const {
    thread_local const std::unique_ptr<Scratch> scratch(new Scratch);  // uninitialized
    const int64_t steps = TileSteps(k * kElement);
    const int64_t w_panel = steps * kPanelStepBytes;
    const int64_t x_panels = CeilDiv(rows.size(), kPanelRows);
    const int64_t w_panels = CeilDiv(columns.size(), kPanelRows);
    auto* const sums = reinterpret_cast<std::byte*>(scratch->sums.data());
    for (int64_t step = 0; step < steps; step += Scratch::kSlabSteps) {
      const int64_t slab = std::min(Scratch::kSlabSteps, steps - step);
      PackSlab(rows, step, slab, scratch->x.data());
      for (int64_t j = 0; j < w_panels; ++j) {
        const std::byte* const w_slab = w + (columns.begin / kPanelRows + j) * w_panel + step * kPanelStepBytes;
        for (int64_t i = 0; i < x_panels; ++i) {
          MultiplyTiles<Tiles, kProduct, 2, 2>(tiles, Panel(scratch->x.data() + i * slab * kPanelStepBytes),
                                               Panel(w_slab), slab, step != 0,
                                               {.data = sums + (i * Scratch::kPanels + j) * 4 * kTileBytes,
                                                .row = kTileRowBytes,
                                                .second_of_x = 2 * kTileBytes,
                                                .second_of_y = kTileBytes});
        }
      }
    }
    for (int64_t row = 0; row < rows.size(); row += kTileRows) {
      for (int64_t column = 0; column < columns.size(); column += kTileColumns) {
        const int64_t tile = (row / kPanelRows * Scratch::kPanels + column / kPanelRows) * 4 +
                             row % kPanelRows / kTileRows * 2 + column % kPanelRows / kTileColumns;
        output.Store(&scratch->sums[static_cast<std::size_t>(tile * kTileRows * kTileColumns)], rows.begin + row,
                     columns.begin + column, std::min<int64_t>(kTileRows, rows.size() - row),
                     std::min<int64_t>(kTileColumns, columns.size() - column));
      }
    }
  }
};

// y[m, n] = x[m, k] · w[n, k]ᵀ (+ bias[n]) in bf16, where w lies row after row, as products of few rows read it.
template <typename Y>
struct TileLinear {
  const std::byte* x = nullptr;  // by PackTileColumns
  const Bf16* w = nullptr;
  const Bf16* bias = nullptr;
  Y* y = nullptr;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// y[m, n] = x[m, k] · w[k, n] in bf16, of operands that lie as forward left them: the gradients of a linear layer.
template <typename Y>
struct TileMatmul {
  const Bf16* x = nullptr;
  const std::byte* w = nullptr;  // by PackTurnedTileColumns
  Y* y = nullptr;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool x_turned = false;  // x lies as [k, m]
};

// Such products with tiles of one kind.
struct TileLinearKernels {
  void (*run)(const TileLinear<Bf16>& work, const ParallelFor& parallel);
  void (*run_columns)(const TileLinear<float>& work, Range columns);  // y[:, columns], on the calling thread
  void (*matmul)(const TileMatmul<Bf16>& work, const ParallelFor& parallel);
  void (*matmul_to_floats)(const TileMatmul<float>& work, const ParallelFor& parallel);
};

template <typename Tiles, typename Y>
TiledProduct<Tiles, TileProduct::kBf16, TransposedTileOutput<Y>> ProductOf(const TileLinear<Y>& work) {
  return {.x = work.w,
          .w = work.x,
          .output = {.y = work.y, .stride = work.n, .bias = work.bias},
          .m = work.n,
          .n = work.m,
          .k = work.k};
}

template <typename Tiles, typename Y>
void Multiply(const TileMatmul<Y>& work, const ParallelFor& parallel) {
  TiledProduct<Tiles, TileProduct::kBf16, TileOutput<Y>>{.x = work.x,
                                                         .w = work.w,
                                                         .output = {.y = work.y, .stride = work.n},
                                                         .m = work.m,
                                                         .n = work.n,
                                                         .k = work.k,
                                                         .x_turned = work.x_turned}(parallel);
}

template <typename Tiles>
inline constexpr TileLinearKernels kTileLinearKernels = {
    .run = [](const TileLinear<Bf16>& work, const ParallelFor& parallel) { ProductOf<Tiles>(work)(parallel); },
    .run_columns = [](const TileLinear<float>& work, Range columns) { ProductOf<Tiles>(work).RunRows(columns); },
    .matmul = Multiply<Tiles, Bf16>,
    .matmul_to_floats = Multiply<Tiles, float>};

// Those of this processor; nullptr: it has none.
const TileLinearKernels* TileLinearKernelsHere();

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
