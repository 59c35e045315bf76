// SPDX-License-Identifier: Apache-2.0
// Products of many rows by tiles, which are registers (Intel AMX) or vectors: y = x · wᵀ in bf16 and fp32, summed in
// fp32, and in int8, summed in int32.
//
// Operands are rows of k elements. Those whose rows are the tiles' rows stay as they lie, and are copied a slab at a
// time (PackTileRows); those whose rows are the tiles' columns are packed before (PackTileColumns). A weight may be
// either: packed once in TiledProduct, in place in TileLinear, which packs x.
//
// A panel of rows meets a chunk of packed columns, which stays in a thread's L2 while all rows pass by: from memory
// they come once for each chunk, front to back, which the processor prefetches better than any instruction of ours did:
// those wait in the buffers that the loads from the L2 need. The sums of a panel with a chunk and its slab, the part of
// it that meets the chunk at a time, stay in L1 and L2. Of a linear layer of 4096 x 4096 in bf16, 8 / 32 / 128 / 256
// rows of x took 0.90 / 1.09 / 2.6 / 5.4 ms with four panels in a chunk, where a bare read of the weight took 0.97, and
// 3.9 / 4.2 / 6.0 / 8.5 in square blocks with copied slabs of both. With eight, and panels stored whole, 256 to 1024
// rows take 0.81 to 0.95 of the time, products of 512³ and 1024³ 0.74 and 0.79; sixteen vary by process, with the pages
// that the sums of a megabyte lie in (two cores of a Xeon, 2026-11-28).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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
struct TileTypes {
  using Factor = int8_t;
  using Sum = int32_t;
  using Result = int32_t;
};
template <>
struct TileTypes<TileProduct::kBf16> {
  using Factor = Bf16;
  using Sum = float;
  using Result = Bf16;
};
template <>
struct TileTypes<TileProduct::kFp32> {
  using Factor = float;
  using Sum = float;
  using Result = float;
};
template <TileProduct kProduct>
using TileFactor = typename TileTypes<kProduct>::Factor;
template <TileProduct kProduct>
using TileSum = typename TileTypes<kProduct>::Sum;
template <TileProduct kProduct>
using TileResult = typename TileTypes<kProduct>::Result;

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

// Rows of w as the columns of tiles: [panel][step][tile][16][16][4 bytes], where row i of a tile holds group i of each
// of its 16 rows of w.
void PackTileColumns(const std::byte* w, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* panels,
                     const ParallelFor& parallel);

// Up to kFewTileColumns rows of w, for VectorTiles: [step][16 groups in parts][row][groups of a part], with as many
// parts as rows, rounded up to a power of two.
void PackFewColumns(const std::byte* w, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* packed);

// The same of matrices that lie transposed: x [rows, columns] as the panels of xᵀ, and w of wᵀ. Two rows at a time
// become the pairs of elements that a tile multiplies.
void PackTurnedTileRows(const Bf16* x, int64_t rows, int64_t columns, int64_t row_stride, std::byte* panels);
void PackTurnedTileColumns(const Bf16* w, int64_t rows, int64_t columns, std::byte* panels,
                           const ParallelFor& parallel);

// The sums of a panel of rows and one of columns: [tile of rows][tile of columns][row][column].
inline constexpr int64_t kPanelSums = kPanelRows * kPanelRows;
// Where the sum of a row and a column is.
constexpr int64_t PanelSum(int64_t row, int64_t column) {
  const int64_t tile = row / kTileRows * 2 + column / kTileColumns;
  return (tile * kTileRows + row % kTileRows) * kTileColumns + column % kTileColumns;
}

// The sums of the first rows and columns of a panel as elements of y, whose rows are `stride` elements apart.
void StorePanel(const float* sums, int64_t rows, int64_t columns, Bf16* y, int64_t stride);
template <typename Sum>
void StorePanel(const Sum* sums, int64_t rows, int64_t columns, Sum* y, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, y += stride) {
    for (int64_t column = 0; column < columns; column += kTileColumns) {
      const Sum* const from = sums + PanelSum(row, column);
      if (columns - column >= kTileColumns) {
        std::memcpy(y + column, from, kTileColumns * sizeof(Sum));  // of a known length: no call
      } else {
        std::copy_n(from, columns - column, y + column);
      }
    }
  }
}

// The same past the caches.
void StreamPanel(const float* sums, int64_t rows, int64_t columns, float* y, int64_t stride);

// The same for rows of y that are columns of the sums. Those in fp32 have a factor and then a bias for each of their
// rows, or none.
struct RowTerms {
  const float* scales = nullptr;
  const Bf16* bias = nullptr;
  RowTerms From(int64_t row) const {
    return {scales == nullptr ? nullptr : scales + row, bias == nullptr ? nullptr : bias + row};
  }
};
void StoreTurnedPanel(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, Bf16* y, int64_t stride);
void StoreTurnedPanel(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, float* y,
                      int64_t stride);
void StoreTurnedPanel(const int32_t* sums, int64_t rows, int64_t columns, int32_t* y, int64_t stride);

// Rows of x that are stored in another type than the product's: a panel converts them a slab at a time.
class StoredRows {
 public:
  StoredRows() = default;
  StoredRows(const StoredRows&) = delete;
  StoredRows& operator=(const StoredRows&) = delete;
  virtual ~StoredRows() = default;
  // Writes `columns` of one panel's rows as PackTileRows does; rows beyond them may hold anything.
  virtual void Pack(Range rows, Range columns, std::byte* slab) const = 0;
};

// Where the sums of x · wᵀ go: the panel that begins at (row, column), of which the first rows and columns exist.
template <typename Y>
struct TileOutput {
  Y* y = nullptr;        // [m, n]
  int64_t stride = 0;    // n
  bool streams = false;  // y in fp32 is too large for the caches: lines are written without being read

  template <typename Sum>
  void Store(const Sum* sums, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    Y* const to = y + row * stride + column;
    if constexpr (std::is_same_v<Sum, float> && std::is_same_v<Y, float>) {
      if (streams) return StreamPanel(sums, rows, columns, to, stride);
    }
    StorePanel(sums, rows, columns, to, stride);
  }
};

// The same for y [n, m], with terms for each row of x.
template <typename Y>
struct TransposedTileOutput {
  Y* y = nullptr;
  int64_t stride = 0;   // m
  RowTerms terms = {};  // of sums in fp32

  template <typename Sum>
  void Store(const Sum* sums, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    Y* const to = y + column * stride + row;
    if constexpr (std::is_same_v<Sum, float>) {
      StoreTurnedPanel(sums, rows, columns, terms.From(row), to, stride);
    } else {
      StoreTurnedPanel(sums, rows, columns, to, stride);
    }
  }
};

// The parts of y[m, n] that threads take one after the other: some panels of rows by a chunk of columns. A chunk and
// the sums of the rows that it meets stay in an L2, and leave nearly half of it to what passes by.
struct TileBlocks {
  static constexpr int64_t kMostPanels = 8;  // of columns
  static constexpr int64_t kMostRowPanels = 16;
  static constexpr int64_t kCachedBytes = int64_t{9} << 17;  // of 2 MiB

  TileBlocks(int64_t rows, int64_t n, int64_t row_steps, int threads)
      : panels(std::min(kMostPanels, CeilDiv(n, kPanelRows))), steps(StepsFor(1)) {
    if (row_steps > steps) {
      row_panels = kMostRowPanels;
      steps = StepsFor(row_panels);
    }
    const auto row_blocks = [&] { return CeilDiv(rows, row_panels * kPanelRows); };
    const auto blocks = [&] { return row_blocks() * CeilDiv(n, panels * kPanelRows); };
    constexpr int64_t kLeastBlocks = 4;  // a thread, so that none waits long for the last one
    while (row_panels > 1 && blocks() < kLeastBlocks * threads) row_panels /= 2;
    while (panels > 1 && blocks() < kLeastBlocks * threads) panels /= 2;
    of_rows = row_blocks();
    count = blocks();
  }

  int64_t panels;  // of columns
  int64_t steps;   // of a chunk; rows with more take several, one after the other
  // They meet a piece of a chunk before its next piece comes, and keep their sums meanwhile.
  int64_t row_panels = 1;
  int64_t of_rows = 0;  // with the same columns
  int64_t count = 0;

 private:
  // Of a chunk that so many panels of rows meet.
  int64_t StepsFor(int64_t met) const {
    constexpr int64_t kSumBytes = kPanelSums * int64_t{sizeof(int32_t)};
    return (kCachedBytes / panels - met * kSumBytes) / kPanelStepBytes;
  }
};

// A thread's buffers.
template <typename Sum>
struct TileScratch {
  static constexpr int64_t kSlabSteps = 8;
  alignas(kTileRowBytes) std::array<std::byte, kSlabSteps * kPanelStepBytes> slab;  // of a panel of rows
  // [panel of rows][panel of columns][kPanelSums]
  alignas(kTileRowBytes) std::array<Sum, TileBlocks::kMostRowPanels * TileBlocks::kMostPanels * kPanelSums> sums;
};

// x[m, k] · w[n, k]ᵀ; `w`: by PackTileColumns, or by PackFewColumns if `few`.
template <typename Tiles, TileProduct kProduct, typename Output = TileOutput<TileResult<kProduct>>>
class TiledProduct {
 public:
  using X = TileFactor<kProduct>;
  using Sum = TileSum<kProduct>;

  const X* x = nullptr;
  const StoredRows* stored = nullptr;  // instead of x
  const std::byte* w = nullptr;
  Output output;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t x_stride = 0;   // from a row of x to the next; 0: k
  bool x_turned = false;  // x lies as [k, m]; in bf16
  bool few = false;
  int64_t rows_ahead = 0;  // of x in place, from those that vectors multiply to those that they prefetch; 0: the next

  void operator()(const ParallelFor& parallel) const {
    const TileBlocks blocks = Blocks({0, m}, parallel.threads());
    parallel(blocks.count, [&](Range range) { Multiply({0, m}, blocks, range); });
  }

  // Some rows of x, on the calling thread.
  void RunRows(Range rows) const {
    const TileBlocks blocks = Blocks(rows, 1);
    Multiply(rows, blocks, {0, blocks.count});
  }

 private:
  using Scratch = TileScratch<Sum>;
  // Whether a panel of rows is copied a slab at a time for the other panels of columns. Registers load 16 rows that lie
  // far apart more slowly than a slab; eight rows, of which vectors take as many lines at a time, they find in an L2.
  static constexpr bool kKeeps = !std::is_same_v<Tiles, VectorTiles>;

  static TileOperand Panel(const std::byte* data, int64_t step = kPanelStepBytes) {
    return {.data = data, .row = kTileRowBytes, .second = kTileBytes, .step = step};
  }
  int64_t step_bytes() const {
    return few ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))) * kTileRowBytes : kPanelStepBytes;
  }

  static constexpr auto kElement = static_cast<int64_t>(sizeof(X));

  int64_t row_bytes() const { return k * kElement; }
  int64_t stride() const { return x_stride == 0 ? k : x_stride; }
  int64_t steps() const { return TileSteps(row_bytes()); }

  // The parts of y[rows].
  TileBlocks Blocks(Range rows, int threads) const { return {rows.size(), n, steps(), threads}; }

  // Blocks [range.begin, range.end) of y[rows].
  void Multiply(Range rows, const TileBlocks& blocks, Range range) const {
    Tiles tiles;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t row = rows.begin + i % blocks.of_rows * blocks.row_panels * kPanelRows;
      const int64_t column = i / blocks.of_rows * blocks.panels * kPanelRows;
      Multiply(tiles, blocks.steps, {row, std::min(rows.end, row + blocks.row_panels * kPanelRows)},
               {column, std::min(n, column + blocks.panels * kPanelRows)});
    }
  }

  // Some steps of a panel of rows of x.
  void PackSlab(Range rows, int64_t step, int64_t count, std::byte* slab) const {
    const int64_t begin = step * kTileRowBytes / kElement;
    const int64_t elements = std::min(k - begin, count * kTileRowBytes / kElement);
    if (stored != nullptr) return stored->Pack(rows, {begin, begin + elements}, slab);
    if constexpr (kProduct == TileProduct::kBf16) {
      if (x_turned) return PackTurnedTileRows(x + begin * m + rows.begin, elements, rows.size(), m, slab);
    }
    PackTileRows(reinterpret_cast<const std::byte*>(x + rows.begin * stride() + begin), rows.size(),
                 stride() * kElement, elements * kElement, slab);
  }

  // Adds the products of some steps of a panel of rows and of the panels of a chunk of columns to their sums.
  void MultiplyPanel(Tiles& tiles, Range rows, Range steps_of, Range columns, Scratch& scratch, Sum* sums) const {
    const int64_t panels = CeilDiv(columns.size(), kPanelRows);
    const std::byte* const chunk = w + columns.begin / kPanelRows * steps() * step_bytes();
    // Tiles take whole rows as they lie; the others are copied with zeros around them.
    const int64_t in_place =
        rows.size() == kPanelRows && !x_turned && stored == nullptr ? row_bytes() / kTileRowBytes : 0;
    int64_t next = steps_of.begin;
    for (int64_t step = next; step < steps_of.end; step = next) {
      const bool copies = step >= in_place;
      next = std::min(copies ? steps_of.end : std::min(in_place, steps_of.end),
                      copies || (kKeeps && panels > 1) ? step + Scratch::kSlabSteps : steps_of.end);
      TileOperand of_x = Panel(scratch.slab.data());
      if (copies) {
        PackSlab(rows, step, next - step, scratch.slab.data());
      } else {
        of_x = {.data = reinterpret_cast<const std::byte*>(x + rows.begin * stride()) + step * kTileRowBytes,
                .row = stride() * kElement,
                .second = kTileRows * stride() * kElement,
                .step = kTileRowBytes,
                .ahead = rows_ahead * stride() * kElement};
      }
      for (int64_t j = 0; j < panels; ++j) {
        const auto multiply = columns.size() - j * kPanelRows > kTileColumns ? MultiplyTiles<Tiles, kProduct, 2, 2>
                                                                             : MultiplyTiles<Tiles, kProduct, 2, 1>;
        multiply(tiles, of_x, Panel(chunk + (j * steps() + step) * step_bytes(), step_bytes()), next - step, step != 0,
                 {.data = reinterpret_cast<std::byte*>(sums + j * kPanelSums),
                  .row = kTileRowBytes,
                  .second_of_x = 2 * kTileBytes,
                  .second_of_y = kTileBytes},
                 kKeeps && j == 0 && !copies && panels > 1 ? scratch.slab.data() : nullptr);
        if (kKeeps) of_x = Panel(scratch.slab.data());
      }
    }
  }

  void Multiply(Tiles& tiles, int64_t chunk_steps, Range rows, Range columns) const {
    thread_local const std::unique_ptr<Scratch> scratch(new Scratch);  // uninitialized
    const auto panel_sums = [&](int64_t row) {
      return &scratch->sums[static_cast<std::size_t>((row - rows.begin) / kPanelRows * TileBlocks::kMostPanels *
                                                     kPanelSums)];
    };
    if (steps() == 0) scratch->sums.fill({});  // of no terms
    for (int64_t step = 0; step < steps(); step += chunk_steps) {
      for (int64_t row = rows.begin; row < rows.end; row += kPanelRows) {
        MultiplyPanel(tiles, {row, std::min(rows.end, row + kPanelRows)}, {step, std::min(steps(), step + chunk_steps)},
                      columns, *scratch, panel_sums(row));
      }
    }
    for (int64_t row = rows.begin; row < rows.end; row += kPanelRows) {
      for (int64_t column = 0; column < columns.size(); column += kPanelRows) {
        output.Store(panel_sums(row) + column / kPanelRows * kPanelSums, row, columns.begin + column,
                     std::min(kPanelRows, rows.end - row), std::min(kPanelRows, columns.size() - column));
      }
    }
  }
};

// y[m, n] = x[m, k] · w[n, k]ᵀ (+ bias[n]) in bf16, where w lies row after row, as products of one row read it.
template <typename Y>
struct TileLinear {
  const std::byte* x = nullptr;  // by PackLinear with the same tiles
  const Bf16* w = nullptr;
  const StoredRows* stored = nullptr;  // instead of w
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

// Whether x of so many rows is packed by PackFewColumns, else by PackTileColumns.
template <typename Tiles>
bool PacksFew(int64_t rows) {
  return std::is_same_v<Tiles, VectorTiles> && rows <= kFewTileColumns;
}
template <typename Tiles>
void PackLinear(const Bf16* x, int64_t rows, int64_t k, std::byte* packed, const ParallelFor& parallel) {
  const auto row_bytes = k * int64_t{sizeof(Bf16)};
  const auto* const bytes = reinterpret_cast<const std::byte*>(x);
  if (PacksFew<Tiles>(rows)) return PackFewColumns(bytes, rows, row_bytes, row_bytes, packed);
  PackTileColumns(bytes, rows, row_bytes, row_bytes, packed, parallel);
}

// Such products with tiles of one kind.
struct TileLinearKernels {
  bool in_registers;   // be they emulated
  int64_t least_rows;  // of x, that take less time so than one after the other
  // x [rows, k] into PanelBytes.
  void (*pack)(const Bf16* x, int64_t rows, int64_t k, std::byte* packed, const ParallelFor& parallel);
  void (*run)(const TileLinear<Bf16>& work, const ParallelFor& parallel);
  // y[:, columns], on the calling thread.
  void (*run_columns)(const TileLinear<Bf16>& work, Range columns);
  void (*run_columns_to_floats)(const TileLinear<float>& work, Range columns);
  void (*matmul)(const TileMatmul<Bf16>& work, const ParallelFor& parallel);
  void (*matmul_to_floats)(const TileMatmul<float>& work, const ParallelFor& parallel);
};

template <typename Tiles, typename Y>
TiledProduct<Tiles, TileProduct::kBf16, TransposedTileOutput<Y>> ProductOf(const TileLinear<Y>& work) {
  return {.x = work.w,
          .stored = work.stored,
          .w = work.x,
          .output = {.y = work.y, .stride = work.n, .terms = {.bias = work.bias}},
          .m = work.n,
          .n = work.m,
          .k = work.k,
          .few = PacksFew<Tiles>(work.m)};
}

template <typename Tiles, typename Y>
void Multiply(const TileMatmul<Y>& work, const ParallelFor& parallel) {
  constexpr int64_t kCachedBytes = int64_t{2} << 20;
  const bool streams = work.m * work.n * int64_t{sizeof(Y)} > kCachedBytes;
  TiledProduct<Tiles, TileProduct::kBf16, TileOutput<Y>>{.x = work.x,
                                                         .w = work.w,
                                                         .output = {.y = work.y, .stride = work.n, .streams = streams},
                                                         .m = work.m,
                                                         .n = work.n,
                                                         .k = work.k,
                                                         .x_turned = work.x_turned}(parallel);
}

template <typename Tiles>
inline constexpr TileLinearKernels kTileLinearKernels = {
    .in_registers = !std::is_same_v<Tiles, VectorTiles>,
    .least_rows = std::is_same_v<Tiles, VectorTiles> ? 2 : kLeastTileLinearRows,
    .pack = PackLinear<Tiles>,
    .run = [](const TileLinear<Bf16>& work, const ParallelFor& parallel) { ProductOf<Tiles>(work)(parallel); },
    .run_columns = [](const TileLinear<Bf16>& work, Range columns) { ProductOf<Tiles>(work).RunRows(columns); },
    .run_columns_to_floats = [](const TileLinear<float>& work,
                                Range columns) { ProductOf<Tiles>(work).RunRows(columns); },
    .matmul = Multiply<Tiles, Bf16>,
    .matmul_to_floats = Multiply<Tiles, float>};

// Those of this processor; nullptr: it has none.
const TileLinearKernels* TileLinearKernelsHere();

// What an IsaFeature has to grant for such a product by registers (0: there are none) and by vectors.
constexpr uint32_t RegistersFor(TileProduct product) {
  if (product == TileProduct::kFp32) return 0;
  return product == TileProduct::kBf16 ? kAmxBf16 : kAmxInt8;
}
constexpr uint32_t VectorsFor(TileProduct product) {
  if (product == TileProduct::kFp32) return kAvx512;
  return product == TileProduct::kBf16 ? kAvx512Bf16 : kAvx512Vnni;
}
// Whether this process may use tile registers for it.
inline bool HasTileRegisters(TileProduct product) {
  const uint32_t needs = RegistersFor(product);
  return ROOFBENCH_X86 && needs != 0 && IsaHas(needs);
}
// The same, or vectors.
inline bool HasTiles(TileProduct product) {
  return ROOFBENCH_X86 && (HasTileRegisters(product) || IsaHas(VectorsFor(product)));
}

// visit(TiledProduct<Tiles, kProduct, Output>()) with the tiles that this process takes for it. Needs HasTiles.
template <TileProduct kProduct, typename Output = TileOutput<TileResult<kProduct>>, typename Visit>
auto WithTiles(Visit visit) {
#if ROOFBENCH_X86
  if constexpr (RegistersFor(kProduct) != 0) {
    if (HasTileRegisters(kProduct)) return visit(TiledProduct<HardwareTiles, kProduct, Output>());
  }
  return visit(TiledProduct<VectorTiles, kProduct, Output>());
#else
  return visit(TiledProduct<EmulatedTiles, kProduct, Output>());
#endif
}

}  // namespace roofbench::kernels
