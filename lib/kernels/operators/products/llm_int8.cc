// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "lib/kernels/operators/products/llm_int8_variant.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kLine = 64;

// From so many rows of x on a panel of the weight is packed: below, memory bounds the product, and packing adds to it.
constexpr int64_t kManyRows = 16;
// Rows of x whose products with a panel lie in a first cache until they are dequantized.
constexpr int64_t kRowsAtOnce = 96;
// Rows of x that a thread quantizes at least: fewer take less time than to wake another.
constexpr int64_t kFewestRows = 16;

constexpr IsaVariant<const LlmInt8Variant& (*)()> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni, Avx512LlmInt8Variant},
#endif
    {0, PortableLlmInt8Variant},
};

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

int64_t Padded(int64_t k) { return (k + kLine - 1) / kLine * kLine; }

// Finite, for the reciprocal of a subnormal number is not, and 0 times infinity is no number.
float Inverse(float row_max) {
  return row_max > 0 ? std::min(kInt8Largest / row_max, std::numeric_limits<float>::max()) : 0;
}

// What a thread keeps for its next product.
struct Scratch {
  struct alignas(kLine) Line {
    uint8_t bytes[kLine];
  };
  std::vector<Line> panel;
  std::vector<int32_t> products;
  std::vector<float> outlier_w;
};

Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

// The outlier columns of `rows` rows of the weight as products see them: [outliers, width].
void GatherOutliers(const LlmInt8Weight& weight, const std::vector<int32_t>& outliers, int64_t first, int64_t rows,
                    int64_t width, std::vector<float>& to) {
  to.resize(outliers.size() * Size(width));
  for (int64_t j = 0; j < rows; ++j) {
    const int8_t* const w = weight.data + (first + j) * weight.k;
    const float scale = weight.row_max[first + j] / weight.steps;
    for (std::size_t o = 0; o < outliers.size(); ++o) {
      to[o * Size(width) + Size(j)] = static_cast<float>(w[outliers[o]]) * scale;
    }
  }
}

}  // namespace

LlmInt8Activations::LlmInt8Activations(int64_t m, int64_t k) {
  // Models of up to 13 billion parameters have some ten outlier columns (Dettmers et al., figure 4).
  constexpr int64_t kLikelyOutliers = 64;
  Resize(m, k);
  outliers_.reserve(Size(k));
  outlier_values_.reserve(Size(m * std::min(k, kLikelyOutliers)));
}

void LlmInt8Activations::Resize(int64_t m, int64_t k) {
  m_ = m;
  k_ = k;
  stride_ = Padded(k) + kLine;
  if (Size(m * stride_ / kLine) > lines_.size()) lines_.resize(Size(m * stride_ / kLine));
  if (Size(m) > row_max_.size()) row_max_.resize(Size(m));
  if (Size(m) > sums_.size()) sums_.resize(Size(m));
  if (Size(k) > is_outlier_.size()) is_outlier_.resize(Size(k));
}

void LlmInt8Activations::Select(const Bf16* x, int64_t m, int64_t k, float threshold, const ParallelFor& parallel_for) {
  Resize(m, k);
  threshold_ = threshold;
  outliers_.clear();
  std::fill_n(is_outlier_.begin(), threshold > 0 ? k : 0, uint8_t{0});
  const auto largest = BestVariant<kVariants>()().largest;
  parallel_for(m, kFewestRows, [&](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      row_max_[Size(row)] = largest(x + row * k, k, threshold, is_outlier_.data());
    }
  });
  if (threshold <= 0) return;
  for (int64_t i = 0; i < k; ++i) {
    if (is_outlier_[Size(i)] != 0) outliers_.push_back(static_cast<int32_t>(i));
  }
}

void LlmInt8Activations::Quantize(const Bf16* x, const ParallelFor& parallel_for, int64_t group) {
  const auto quantize = BestVariant<kVariants>()().quantize;
  const std::size_t count = outliers_.size();
  outlier_values_.resize(Size(m_) * count);
  group_ = group;
  const int64_t groups = group > 0 ? k_ / group : 0;
  if (Size(m_ * groups) > group_sums_.size()) group_sums_.resize(Size(m_ * groups));
  parallel_for(m_, kFewestRows, [&](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const Bf16* const from = x + row * k_;
      int8_t* const to = lines_.data()->bytes + row * stride_;
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
}

template <typename Y>
void RunRows(const LlmInt8Product<Y>& work, Range rows) {
  const LlmInt8Weight& weight = work.weight;
  const LlmInt8Activations& x = *work.activations;
  const LlmInt8Variant& variant = BestVariant<kVariants>()();
  const bool packs = variant.pack != nullptr && x.m() >= kManyRows && weight.k > 0;
  const int64_t width = packs ? kInt8PanelRows : kInt8BlockRows;
  const int64_t at_once = packs ? kRowsAtOnce : std::min(x.m(), kRowsAtOnce);
  Scratch& scratch = ThreadScratch();
  if (packs) scratch.panel.resize(Size(kInt8PanelRows * Padded(weight.k) / kLine));
  scratch.products.resize(Size(at_once * width));
  for (int64_t first = rows.begin; first < rows.end; first += width) {
    const int64_t count = std::min(width, rows.end - first);
    Int8Block block{.w = weight.data + first * weight.k,
                    .rows = count,
                    .k = weight.k,
                    .stride = x.stride(),
                    .products = scratch.products.data(),
                    .width = width};
    if (packs) {
      variant.pack(block.w, count, weight.k, scratch.panel.data()->bytes);
      block.panel = scratch.panel.data()->bytes;
    }
    GatherOutliers(weight, x.outliers(), first, count, width, scratch.outlier_w);
    for (int64_t row = 0; row < x.m(); row += at_once) {
      block.x = x.row(row);
      block.sums = x.sums() + row;
      block.m = std::min(at_once, x.m() - row);
      (packs ? variant.many_rows : variant.few_rows)(block);
      const auto outliers = static_cast<int64_t>(x.outliers().size());
      DequantizeBlock(Int8Dequantized<Y>{.products = block.products,
                                         .width = width,
                                         .rows = count,
                                         .x_max = x.row_max() + row,
                                         .w_max = weight.row_max + first,
                                         .w_steps = weight.steps,
                                         .outliers = outliers,
                                         .outlier_x = x.outlier_values() + row * outliers,
                                         .outlier_w = scratch.outlier_w.data(),
                                         .y = work.y + row * weight.n + first,
                                         .y_stride = weight.n},
                      {0, block.m});
    }
  }
}

template <typename Y>
void Run(const LlmInt8Product<Y>& work, const ParallelFor& parallel_for) {
  parallel_for(work.weight.n, kInt8PanelRows, [&](Range rows) { RunRows(work, rows); });
}

template void RunRows(const LlmInt8Product<float>&, Range);
template void RunRows(const LlmInt8Product<Bf16>&, Range);
template void Run(const LlmInt8Product<float>&, const ParallelFor&);
template void Run(const LlmInt8Product<Bf16>&, const ParallelFor&);

}  // namespace roofbench::kernels
