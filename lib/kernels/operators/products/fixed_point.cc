// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/fixed_point.h"

#include <algorithm>
#include <array>
#include <bit>

#include "lib/kernels/operators/products/tile_product.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kBlockSteps = FixedPoint::kBlock / kTileRowBytes;
constexpr int64_t kPanelBytes = kBlockSteps * kPanelStepBytes;

using Conversion = bool (*)(const Bf16* x, int64_t k, int64_t group, FixedPoint& to);
// Null where the processor multiplies in fp32.
constexpr IsaVariant<Conversion> kConversions[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni, Avx512Convert},
#endif
    {0, nullptr},
};

// Rows of the weight whose sums in fp32 stay in a cache while all blocks of columns pass by: many where the columns of
// x leave the first cache, few where the next rows are to be prefetched whole.
constexpr int64_t kMostRowsAtOnce = 2 * kPanelRows;

// Adds sums of a block to those in fp32, panels of 32 rows by two groups, which `Panel` finds.
struct BlockOutput {
  float* totals = nullptr;
  const float* scales = nullptr;  // [group][kTileColumns]
  int64_t group_pairs = 0;
  int64_t first_group = 0;
  int64_t distance = 0;  // from an upper to a lower column
  bool add = false;

  float* Panel(int64_t row, int64_t group) const {
    return totals + (row / kPanelRows * group_pairs + group / 2) * kPanelSums + PanelSum(0, group % 2 * kTileColumns);
  }
  void Store(const int32_t* sums, int64_t row, int64_t column, int64_t rows, int64_t /*columns*/) const {
    const int64_t group = first_group + column / kPanelRows;
    if (distance == kTileColumns) return Add<kTileColumns>(sums, row, rows, group);
    Add<kTileColumns / 2>(sums, row, rows, group);
  }
  template <int64_t kVectors>
  void Add(const int32_t* sums, int64_t row, int64_t rows, int64_t group) const {
    const float* const scale = scales + group * kTileColumns;
    float* const to = Panel(row, group);
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t* const upper = sums + PanelSum(r, 0);
      const int32_t* const lower = sums + PanelSum(r, distance);
      float* const total = to + PanelSum(r, 0);
      for (int64_t v = 0; v < kVectors; ++v) {
        // Sums of 1024 products of two bytes are exact in fp32, and would not fit 32 bits times 256.
        const float product = (256 * static_cast<float>(upper[v]) + static_cast<float>(lower[v])) * scale[v];
        total[v] = add ? total[v] + product : product;
      }
    }
  }
};

}  // namespace

int64_t FixedPointColumns::Taken(int64_t vectors) {
  // What is left of whole groups, and the number of these by tiles. Rows of 4096 in int8, 4096 of them, took 555 us
  // with 4 vectors where a few at a time took 644, with 8 820 and 957; with 3 558 and 521, with 6 828 and 768 (two
  // cores of an EPYC, Zen 4, 2026-11-30).
  constexpr int64_t kOfLeft[kGroup] = {0, 0, 0, 0, 4, 0, 0, 7, 8, 8, 8, 8, 12, 13, 14, 15};
  if (!HasTiles(TileProduct::kInt8)) return 0;
  const int64_t left = vectors % kGroup;
  return vectors - left + kOfLeft[left];
}

int64_t FixedPointColumns::distance_in_rest() const {
  const int64_t rest = vectors_ - whole_groups() * kGroup;
  if (rest <= 0) return 0;
  const auto distance = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rest)));
  return 2 * distance <= kFewTileColumns && !HasTileRegisters(TileProduct::kInt8) ? distance : kGroup / 2;
}

// A vector of a group is a column of a tile.
void FixedPointColumns::Pack(const FixedPoint* const* x, int64_t vectors, int64_t k, const ParallelFor& parallel) {
  static_assert(kGroup == kTileColumns);
  vectors_ = vectors;
  const int64_t blocks = CeilDiv(k, FixedPoint::kBlock);
  panels_.resize(static_cast<std::size_t>(blocks * groups() * kPanelBytes / kLineBytes));
  scales_.assign(static_cast<std::size_t>(blocks * groups() * kGroup), 0);
  parallel(blocks * groups(), [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t block = i / groups();
      const int64_t group = i % groups();
      const int64_t begin = block * FixedPoint::kBlock;
      const int64_t columns = std::min(FixedPoint::kBlock, k - begin);
      std::array<int8_t, static_cast<std::size_t>(kPanelRows * FixedPoint::kBlock)> rows = {};
      const int64_t distance = group < whole_groups() ? kGroup : distance_in_rest();
      for (int64_t v = 0; v < std::min(kGroup, vectors - group * kGroup); ++v) {
        const FixedPoint& vector = *x[group * kGroup + v];
        const auto row = [&](int64_t at) { return rows.begin() + at * FixedPoint::kBlock; };
        std::copy_n(vector.high.data()->values + begin, columns, row(v));
        std::copy_n(vector.low.data()->values + begin, columns, row(distance + v));
        scales_[static_cast<std::size_t>(i * kGroup + v)] = vector.scales[static_cast<std::size_t>(block)];
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(rows.data());
      std::byte* const panel =
          panels_.data()->values + block * groups() * kPanelBytes + group * PanelBytes(1, TileSteps(columns));
      if (2 * distance <= kFewTileColumns) {
        PackFewColumns(bytes, 2 * distance, FixedPoint::kBlock, columns, panel);
      } else {
        PackTileColumns(bytes, kPanelRows, FixedPoint::kBlock, columns, panel, SerialFor());
      }
    }
  });
}

template <typename Y>
void FixedPointColumns::RunRows(const Int8Weight& weight, Range rows, Y* y) const {
  const int64_t pairs = CeilDiv(groups(), 2);
  thread_local std::vector<Line<float>> totals;
  totals.resize(static_cast<std::size_t>(kMostRowsAtOnce / kPanelRows * pairs * kPanelSums * int64_t{sizeof(float)} /
                                         kLineBytes));
  const int64_t rows_at_once = pairs > 1 ? kMostRowsAtOnce : kPanelRows;
  WithTiles<TileProduct::kInt8, BlockOutput>([&](auto product) {
    BlockOutput& output = product.output;
    output.totals = totals.data()->values;
    output.group_pairs = pairs;
    product.x_stride = weight.k;
    product.rows_ahead = rows_at_once;
    const int64_t in_rest = distance_in_rest();
    const auto run = [&](const std::byte* panels, int64_t columns, int64_t first_group, int64_t distance) {
      if (columns == 0) return;
      product.w = panels + first_group * PanelBytes(1, TileSteps(product.k));
      product.n = columns;
      product.few = columns <= kFewTileColumns;
      output.first_group = first_group;
      output.distance = distance;
      product.RunRows({0, product.m});
    };
    for (int64_t row = rows.begin; row < rows.end; row += rows_at_once) {
      product.m = std::min(rows_at_once, rows.end - row);
      for (int64_t begin = 0; begin < weight.k; begin += FixedPoint::kBlock) {
        const int64_t block = begin / FixedPoint::kBlock;
        output.scales = &scales_[static_cast<std::size_t>(block * groups() * kGroup)];
        output.add = block > 0;
        product.x = weight.data + row * weight.k + begin;
        product.k = std::min(FixedPoint::kBlock, weight.k - begin);
        const std::byte* const panels = panels_.data()->values + block * groups() * kPanelBytes;
        run(panels, whole_groups() * kPanelRows, 0, kGroup);
        run(panels, 2 * in_rest, whole_groups(), in_rest);
      }
      for (int64_t at = 0; at < product.m; at += kPanelRows) {
        for (int64_t v = 0; v < vectors_; v += kPanelRows) {
          StoreTurnedPanel(output.Panel(at, v / kGroup), std::min(kPanelRows, product.m - at),
                           std::min(kPanelRows, vectors_ - v), {.scales = weight.scales + row + at},
                           y + v * weight.n + row + at, weight.n);
        }
      }
    }
  });
}

void FixedPointVectors::Convert(const Bf16* x, int64_t m, int64_t k, int64_t group, const ParallelFor& parallel) {
  // Elements from which it pays to share the conversion.
  constexpr int64_t kShared = int64_t{1} << 16;
  const SerialFor alone;
  const ParallelFor& threads = m * k < kShared ? alone : parallel;
  const Conversion convert = BestVariant<kConversions>();
  const auto size = static_cast<std::size_t>(m);
  if (forms_.size() < size) forms_.resize(size);
  fixed_.resize(size);
  threads(m, [&](Range vectors) {
    for (auto v = static_cast<std::size_t>(vectors.begin); v < static_cast<std::size_t>(vectors.end); ++v) {
      const Bf16* const from = x + static_cast<int64_t>(v) * k;
      Form& form = forms_[v];
      fixed_[v] = convert != nullptr && convert(from, k, group, form.fixed) ? &form.fixed : nullptr;
      if (fixed_[v] != nullptr) continue;
      form.floats.resize(static_cast<std::size_t>(k));
      std::transform(from, from + k, form.floats.begin(), [](Bf16 value) { return ToFloat(value); });
    }
  });
  are_fixed_ = std::ranges::find(fixed_, nullptr) == fixed_.end();
  columns_.Pack(fixed_.data(), are_fixed_ && group == 0 ? FixedPointColumns::Taken(m) : 0, k, threads);
}

template void FixedPointColumns::RunRows(const Int8Weight&, Range, float*) const;
template void FixedPointColumns::RunRows(const Int8Weight&, Range, Bf16*) const;

}  // namespace roofbench::kernels
