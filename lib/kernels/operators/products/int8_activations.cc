// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/int8_activations.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>

#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/tile.h"

namespace roofbench::kernels {
namespace {

// The fewest rows of x that a thread quantizes: fewer take less time than waking another thread.
constexpr int64_t kFewestRows = 16;

constexpr int64_t kWordBits = 64;

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// Keeps the reciprocal finite: that of a subnormal number is infinite, and 0 times infinity is NaN.
float Inverse(float row_max) {
  return row_max > 0 ? std::min(kInt8Largest / row_max, std::numeric_limits<float>::max()) : 0;
}

}  // namespace

Int8Activations::Int8Activations(int64_t m, int64_t k) {
  // Models of up to 13 billion parameters have about ten outlier columns (Dettmers et al., figure 4).
  constexpr int64_t kLikelyOutliers = 64;
  Resize(m, k);
  outliers_.reserve(Size(k));
  outlier_values_.reserve(Size(m * std::min(k, kLikelyOutliers)));
  if (m > BestInt8Variant().most_outlier_rows) return;
  outlier_groups_.first.reserve(Size(kLikelyOutliers));
  outlier_groups_.x.reserve(Size(m * kLikelyOutliers * OutlierGroups::kColumns));
}

void Int8Activations::Resize(int64_t m, int64_t k) {
  m_ = m;
  k_ = k;
  stride_ = RoundUp(k, kLineBytes) + kLineBytes;
  const int64_t rows = m < kLeastTileLinearRows ? m : RoundUp(m, kTileRows);  // tiles of int4 weights read whole ones
  if (Size(rows * stride_ / kLineBytes) > lines_.size()) lines_.resize(Size(rows * stride_ / kLineBytes));
  if (BestInt8Variant().TakesTiles(m)) {
    const std::size_t lines = Size(PanelBytes(m, TileSteps(k)) / kLineBytes);
    if (lines > tile_columns_.size()) tile_columns_.resize(lines);
  }
  if (Size(m) > row_max_.size()) row_max_.resize(Size(m));
  if (Size(m) > sums_.size()) sums_.resize(Size(m));
  if (Size(CeilDiv(k, kWordBits)) > outlier_bits_.size()) outlier_bits_.resize(Size(CeilDiv(k, kWordBits)));
}

void Int8Activations::Select(const Bf16* x, int64_t m, int64_t k, float threshold, const ParallelFor& parallel_for) {
  Resize(m, k);
  threshold_ = threshold;
  outliers_.clear();
  const std::span words(outlier_bits_.data(), threshold > 0 ? Size(CeilDiv(k, kWordBits)) : 0);
  std::ranges::fill(words, uint64_t{0});
  const auto largest = BestInt8Variant().largest;
  parallel_for(m, kFewestRows, [&](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      row_max_[Size(row)] = largest(x + row * k, k, threshold, outlier_bits_.data());
    }
  });
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (uint64_t bits = words[i]; bits != 0; bits &= bits - 1) {
      outliers_.push_back(static_cast<int32_t>(i * kWordBits) + std::countr_zero(bits));
    }
  }
}

void Int8Activations::GroupOutliers(const Bf16* x) {
  constexpr int64_t kColumns = OutlierGroups::kColumns;
  auto& [first, values] = outlier_groups_;
  first.clear();
  const auto most = static_cast<int32_t>(std::max<int64_t>(0, k_ - kColumns));
  for (const int32_t column : outliers_) {
    if (first.empty() || column >= first.back() + kColumns) first.push_back(std::min(column, most));
  }
  values.assign(Size(m_ * kColumns) * first.size(), 0);
  for (int64_t row = 0; row < m_; ++row) {
    float* to = values.data() + Size(row * kColumns) * first.size();
    std::size_t g = 0;
    for (const int32_t column : outliers_) {
      while (column >= first[g] + kColumns) ++g;
      to[Size(kColumns) * g + Size(column - first[g])] = ToFloat(x[row * k_ + column]);
    }
  }
}

void Int8Activations::Quantize(const Bf16* x, const ParallelFor& parallel_for, int64_t group) {
  const Int8Variant& variant = BestInt8Variant();
  const auto quantize = variant.quantize;
  const std::size_t count = outliers_.size();
  outlier_values_.resize(Size(m_) * count);
  if (m_ <= variant.most_outlier_rows) {
    GroupOutliers(x);
  } else {
    outlier_groups_.first.clear();
  }
  group_ = group;
  const int64_t groups = group > 0 ? k_ / group : 0;
  if (Size(m_ * groups) > group_sums_.size()) group_sums_.resize(Size(m_ * groups));
  parallel_for(m_, kFewestRows, [&](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const Bf16* const from = x + row * k_;
      int8_t* const to = lines_.data()->values + row * stride_;
      int32_t sum = quantize(from, k_, threshold_, Inverse(row_max_[Size(row)]), to);
      std::fill(to + k_, to + stride_, int8_t{0});
      for (std::size_t o = 0; o < count; ++o) {
        const int32_t column = outliers_[o];
        outlier_values_[Size(row) * count + o] = ToFloat(from[column]);
        sum -= to[column];
        to[column] = 0;
      }
      sums_[Size(row)] = sum;
      for (int64_t g = 0; g < groups; ++g) {
        const int8_t* const values = to + g * group;
        group_sums_[Size(row * groups + g)] = static_cast<float>(std::accumulate(values, values + group, int32_t{0}));
      }
    }
  });
  if (variant.TakesTiles(m_) && group == 0) {
    const auto* const lines = reinterpret_cast<const std::byte*>(row(0));
    std::byte* const columns = tile_columns_.data()->values;
    if (m_ <= variant.most_few_columns) return PackFewColumns(lines, m_, stride_, k_, columns);
    PackTileColumns(lines, m_, stride_, k_, columns, parallel_for);
  }
}

}  // namespace roofbench::kernels
