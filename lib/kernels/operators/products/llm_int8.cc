// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/dispatch.h"
#include "lib/kernels/simd/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/products/llm_int8.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

// Products are computed in 16 bits: every vector unit has that dot product, and Highway 1.0.3 has none of 8 bits.
HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// The mask of magnitudes below `threshold` (0: all).
HWY_INLINE auto Below(FloatVec magnitude, float threshold) {
  const FloatTag d;
  if (threshold > 0) return hn::Lt(magnitude, hn::Set(d, threshold));
  return hn::Le(magnitude, hn::Set(d, std::numeric_limits<float>::infinity()));
}

float Largest(const Bf16* x, int64_t k, float threshold, uint64_t* outliers) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  FloatVec largest = hn::Zero(d);
  for (int64_t i = 0; i < k; i += lanes) {
    const FloatVec magnitude = hn::Abs(LoadSome(x + i, static_cast<std::size_t>(k - i)));
    largest = hn::Max(largest, hn::IfThenElseZero(Below(magnitude, threshold), magnitude));
    if (threshold <= 0 || hn::AllFalse(d, hn::Ge(magnitude, hn::Set(d, threshold)))) continue;
    for (int64_t j = i; j < std::min(i + lanes, k); ++j) {
      // Another thread may find a column in another row.
      const uint64_t found = std::abs(ToFloat(x[j])) >= threshold ? 1 : 0;
      if (found != 0) std::atomic_ref(outliers[j / 64]).fetch_or(found << (j % 64), std::memory_order_relaxed);
    }
  }
  return MaxOf(largest);
}

int32_t Quantize(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> d32;
  const hn::Rebind<int8_t, FloatTag> d8;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  const FloatVec low = hn::Set(d, -kInt8Largest);
  auto sum = hn::Zero(d32);
  for (int64_t i = 0; i < k; i += lanes) {
    const FloatVec value = LoadSome(x + i, static_cast<std::size_t>(k - i));
    const FloatVec scaled = hn::Mul(value, hn::Set(d, inverse));
    const FloatVec within = hn::Min(hn::IfThenElse(hn::Gt(scaled, low), scaled, low), hn::Set(d, kInt8Largest));
    const FloatVec kept = hn::IfThenElseZero(Below(hn::Abs(value), threshold), within);
    const auto whole = hn::NearestInt(kept);
    sum = hn::Add(sum, whole);
    const auto bytes = hn::DemoteTo(d8, whole);
    if (k - i >= lanes) {
      hn::StoreU(bytes, d8, to + i);
    } else {
      int8_t last[HWY_MAX_BYTES / sizeof(float)];
      hn::StoreU(bytes, d8, last);
      std::copy_n(last, k - i, to + i);
    }
  }
  return hn::GetLane(hn::SumOfLanes(d32, sum));
}

#if HWY_TARGET == HWY_SCALAR

template <int kOfX>
HWY_INLINE void DotRow(const Int8Block& block, int64_t row, int64_t x_row) {
  const int8_t* const w = block.w + row * block.k;
  for (int64_t c = x_row; c < x_row + kOfX; ++c) {
    int32_t sum = 0;
    for (int64_t i = 0; i < block.k; ++i) sum += int32_t{w[i]} * block.x[c * block.stride + i];
    block.products[c * block.width + row] = sum;
  }
}

#else

using Words = hn::ScalableTag<int32_t>;
using Halves = hn::Repartition<int16_t, Words>;
using Bytes = hn::Rebind<int8_t, Halves>;

// Adds w · x[c], of one vector of each, to sums[c] and others[c].
template <int kOfX>
HWY_INLINE void AddProducts(const int8_t* w, const int8_t* x, int64_t stride, hn::Vec<Words> (&sums)[kOfX],
                            hn::Vec<Words> (&others)[kOfX]) {
  const Halves halves;
  const Bytes bytes;
  const auto weights = hn::PromoteTo(halves, hn::LoadU(bytes, w));
  for (int c = 0; c < kOfX; ++c) {
    const auto of_x = hn::PromoteTo(halves, hn::LoadU(bytes, x + c * stride));
    sums[c] = hn::ReorderWidenMulAccumulate(Words(), weights, of_x, sums[c], others[c]);
  }
}

template <int kOfX>
HWY_INLINE void DotRow(const Int8Block& block, int64_t row, int64_t x_row) {
  const Words words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Halves()));
  const int8_t* const w = block.w + row * block.k;
  const int8_t* const x = block.x + x_row * block.stride;
  hn::Vec<Words> sums[kOfX];
  hn::Vec<Words> others[kOfX];
  for (int c = 0; c < kOfX; ++c) sums[c] = others[c] = hn::Zero(words);
  int64_t i = 0;
  for (; i + lanes <= block.k; i += lanes) AddProducts<kOfX>(w + i, x + i, block.stride, sums, others);
  if (i < block.k) {
    int8_t last[HWY_MAX_BYTES / sizeof(int16_t)] = {};
    std::copy(w + i, w + block.k, last);
    AddProducts<kOfX>(last, x + i, block.stride, sums, others);
  }
  for (int c = 0; c < kOfX; ++c) {
    block.products[(x_row + c) * block.width + row] = hn::GetLane(hn::SumOfLanes(words, hn::Add(sums[c], others[c])));
  }
}

#endif

void Rows(const Int8Block& block) {
  constexpr int kOfX = 4;
  int64_t i = 0;
  for (; i + kOfX <= block.m; i += kOfX) {
    for (int64_t row = 0; row < block.rows; ++row) DotRow<kOfX>(block, row, i);
  }
  for (; i < block.m; ++i) {
    for (int64_t row = 0; row < block.rows; ++row) DotRow<1>(block, row, i);
  }
}

const Int8Variant& Variant() {
  static constexpr Int8Variant kVariant = {.largest = Largest, .quantize = Quantize, .few_rows = Rows};
  return kVariant;
}

// Dequantizes columns [begin, begin + kVectors vectors) of row i; the last vector may be partial.
template <int kVectors, typename Y>
HWY_INLINE void DequantizeColumns(const Int8Dequantized<Y>& work, int64_t i, int64_t begin) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> d32;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  const FloatVec scale = hn::Set(d, work.x_max[i] / (kInt8Largest * work.w_steps));
  const int32_t* const products = work.products + i * work.width + begin;
  FloatVec values[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const auto left = static_cast<std::size_t>(work.rows - begin - v * lanes);
    const FloatVec whole = hn::ConvertTo(d, hn::LoadU(d32, products + v * lanes));
    const FloatVec w_max = LoadSome(work.w_max + begin + v * lanes, left);
    values[v] = hn::Mul(whole, hn::Mul(scale, w_max));
    if (work.outlier_sums == nullptr) continue;
    const FloatVec sums = LoadFloats(work.outlier_sums + i * work.width + begin + v * lanes);
    values[v] = hn::MulAdd(sums, hn::Mul(w_max, hn::Set(d, 1 / work.w_steps)), values[v]);
  }
  const float* w = work.outlier_w + begin;
  for (int64_t o = 0; o < work.outliers; ++o, w += work.width) {
    const FloatVec x = hn::Set(d, work.outlier_x[i * work.outliers + o]);
    for (int v = 0; v < kVectors; ++v) values[v] = hn::MulAdd(x, LoadFloats(w + v * lanes), values[v]);
  }
  for (int v = 0; v < kVectors; ++v) {
    const int64_t column = begin + v * lanes;
    StoreSome(values[v], work.y + i * work.y_stride + column, static_cast<std::size_t>(work.rows - column));
  }
}

template <typename Y>
HWY_INLINE void Dequantize(const Int8Dequantized<Y>& work, Range m) {
  constexpr int kVectors = 2;  // of 16 floats at most: a panel
  const auto lanes = static_cast<int64_t>(FloatLanes());
  for (int64_t i = m.begin; i < m.end; ++i) {
    int64_t begin = 0;
    for (; begin + (kVectors - 1) * lanes < work.rows; begin += kVectors * lanes) {
      DequantizeColumns<kVectors>(work, i, begin);
    }
    if (begin < work.rows) DequantizeColumns<1>(work, i, begin);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Dequantize, Int8Dequantized)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

// Rows of x whose products with a block of the weight stay in a first-level cache until they are dequantized.
constexpr int64_t kRowsAtOnce = 96;
HWY_EXPORT(Variant);
ROOFBENCH_HIGHWAY_DISPATCHES(Dequantize, Int8Dequantized)

const Int8Variant& PortableVariant() { return HWY_DYNAMIC_DISPATCH(Variant)(); }

constexpr IsaVariant<const Int8Variant& (*)()> kVariants[] = {
#if ROOFBENCH_X86
    {kAmxInt8 | kAvx512Vnni, AmxInt8Variant},
    {kAvx512Vnni, Avx512Int8Variant},
#endif
    {0, PortableVariant},
};

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// Buffers that a thread keeps for its next product.
struct Scratch {
  std::vector<Line<uint8_t>> panel;
  std::vector<int32_t> products;
  std::vector<float> outlier_sums;
  std::vector<float> outlier_w;
};

thread_local Scratch t_scratch;

// The dequantized outlier columns of `rows` rows of the weight, one after the other: [outliers, width].
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

const Int8Variant& BestInt8Variant() { return BestVariant<kVariants>()(); }

template <typename Y>
void RunRows(const LlmInt8Product<Y>& work, Range rows) {
  const LlmInt8Weight& weight = work.weight;
  const Int8Activations& x = *work.activations;
  const Int8Variant& variant = BestInt8Variant();
  const bool by_tiles = variant.TakesTiles(x.m());
  const bool packs = variant.TakesPanels(x.m());
  const bool gathers = x.outlier_groups().first.empty();
  const auto gathered = gathers ? static_cast<int64_t>(x.outliers().size()) : 0;
  const int64_t few_rows = x.m() == 1 && gathered == 0 ? kInt8LongBlockRows : kInt8BlockRows;
  const int64_t width = by_tiles ? variant.tile_block_rows : packs ? kInt8PanelRows : few_rows;
  const int64_t at_once = std::min(x.m(), by_tiles ? variant.tile_rows_at_once : kRowsAtOnce);
  const auto multiply = by_tiles ? variant.by_tiles : packs ? variant.many_rows : variant.few_rows;
  Scratch& scratch = t_scratch;
  if (packs)
    scratch.panel.resize(Size(std::max<int64_t>(1, kInt8PanelRows * RoundUp(weight.k, kLineBytes) / kLineBytes)));
  scratch.products.resize(Size(at_once * width));
  if (!gathers) scratch.outlier_sums.resize(Size(at_once * width));
  for (int64_t first = rows.begin; first < rows.end; first += width) {
    const int64_t count = std::min(width, rows.end - first);
    Int8Block block{.w = weight.data + first * weight.k,
                    .rows = count,
                    .k = weight.k,
                    .stride = x.stride(),
                    .few_columns = x.m() <= variant.most_few_columns,
                    .products = scratch.products.data(),
                    .width = width,
                    .outlier_groups = x.outlier_groups().first,
                    .outlier_sums = scratch.outlier_sums.data()};
    if (packs) {
      variant.pack(block.w, count, weight.k, scratch.panel.data()->values);
      block.panel = scratch.panel.data()->values;
    }
    for (int64_t row = 0; row < x.m(); row += at_once) {
      block.x = x.row(row);
      block.sums = x.sums() + row;
      if (by_tiles) block.tile_columns = x.tile_columns() + PanelBytes(row, TileSteps(weight.k));
      block.m = std::min(at_once, x.m() - row);
      block.outlier_x = x.outlier_groups().x.data();  // few rows are all taken at once
      multiply(block);
      // The product has brought the rows of the weight into a cache.
      if (row == 0 && gathered > 0) GatherOutliers(weight, x.outliers(), first, count, width, scratch.outlier_w);
      Dequantize(Int8Dequantized<Y>{.products = block.products,
                                    .width = width,
                                    .rows = count,
                                    .x_max = x.row_max() + row,
                                    .w_max = weight.row_max + first,
                                    .w_steps = weight.steps,
                                    .outlier_sums = gathers ? nullptr : block.outlier_sums,
                                    .outliers = gathered,
                                    .outlier_x = x.outlier_values() + row * gathered,
                                    .outlier_w = scratch.outlier_w.data(),
                                    .y = work.y + row * weight.n + first,
                                    .y_stride = weight.n},
                 {0, block.m});
    }
  }
}

template void RunRows(const LlmInt8Product<float>&, Range);
template void RunRows(const LlmInt8Product<Bf16>&, Range);

}  // namespace roofbench::kernels
#endif
