// SPDX-License-Identifier: Apache-2.0
// Attention in fp32, and in bf16 where a processor has no dot products of it: a word is a float.
#include "lib/kernels/operators/attention/attention_variant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "lib/kernels/operators/attention/attention_portable.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/simd/highway_exponentials.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// No wider than the unit in which panels are counted.
using Tag = hn::CappedTag<float, kVectorWords>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kRows = kRowsAtOnce;
// So many sums as there are registers for.
constexpr int64_t kMostVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;

template <int64_t kVectors>
HWY_INLINE void Columns(const TileProduct& tile, int64_t column) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* const c = tile.c + column;
  Vec sums[kRows][kVectors];
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[i][v] = tile.add ? hn::LoadU(d, c + i * tile.c_stride + v * lanes) : hn::Zero(d);
    }
  }
  const float* b = tile.b + column;
  for (int64_t step = 0; step < tile.steps; ++step, b += tile.b_stride) {
    Vec right[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    for (int64_t i = 0; i < kRows; ++i) {
      const Vec left = hn::Set(d, tile.a[i * tile.a_stride + step]);
      for (int64_t v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(left, right[v], sums[i][v]);
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, c + i * tile.c_stride + v * lanes);
  }
}

void Product(const TileProduct& tile) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  const int64_t columns = tile.vectors * kVectorWords;
  int64_t column = 0;
  for (; column + kMostVectors * lanes <= columns; column += kMostVectors * lanes) Columns<kMostVectors>(tile, column);
  for (; column < columns; column += lanes) Columns<1>(tile, column);
}

void Weigh(const ScoreRow& row) {
  const FloatTag d;
  const auto seen = static_cast<std::size_t>(row.seen);
  const float now = MaximumOf(row.scores, seen) * row.scale;
  if (now > *row.largest) {
    const float shrink = std::exp(*row.largest - now);
    for (int64_t i = 0; i < row.width; ++i) row.sum[i] *= shrink;
    *row.weight *= shrink;
    *row.largest = now;
  }
  // Where no score is above -infinity yet, the weights are zero and not NaN.
  const bool none = *row.largest == -std::numeric_limits<float>::infinity();
  const FloatVec largest = hn::Set(d, none ? 0.0F : *row.largest);
  const FloatVec scale = hn::Set(d, row.scale);
  FloatVec sums = hn::Zero(d);
  for (std::size_t i = 0; i < seen; i += FloatLanes()) {
    const FloatVec x = hn::MulSub(LoadSome(row.scores + i, seen - i), scale, largest);
    const FloatVec weight = KeepFirst(Exponential(x), seen - i);
    StoreSome(weight, row.scores + i, seen - i);
    sums = hn::Add(sums, weight);
  }
  std::fill(row.scores + row.seen, row.scores + row.until, 0.0F);
  *row.weight += SumOf(sums);
}

template <typename T>
HWY_INLINE void FinishRow(const float* sum, float scale, int64_t dim, T* y) {
  const FloatVec factor = hn::Set(FloatTag(), scale);
  const auto n = static_cast<std::size_t>(dim);
  for (std::size_t i = 0; i < n; i += FloatLanes()) {
    StoreSome(hn::Mul(LoadSome(sum + i, n - i), factor), y + i, n - i);
  }
}
void FinishFp32(const float* sum, float scale, int64_t dim, float* y) { FinishRow(sum, scale, dim, y); }
void FinishBf16(const float* sum, float scale, int64_t dim, Bf16* y) { FinishRow(sum, scale, dim, y); }

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

HWY_EXPORT(Product);
HWY_EXPORT(Weigh);
HWY_EXPORT(FinishFp32);
HWY_EXPORT(FinishBf16);

template <typename T>
void PackQueries(const T* from, int64_t stride, int64_t count, int64_t dim, float* to) {
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < dim; ++i) to[row * dim + i] = ToFloat(from[row * stride + i]);
  }
}

template <typename T>
void PackKeys(const T* from, int64_t stride, int64_t count, int64_t dim, float* to) {
  // A few keys at a time, whose lines stay in the L1.
  constexpr int64_t kSome = 16;
  for (int64_t first = 0; first < kPanel; first += kSome) {
    for (int64_t i = 0; i < dim; ++i) {
      for (int64_t key = first; key < first + kSome; ++key) {
        to[i * kPanel + key] = key < count ? ToFloat(from[key * stride + i]) : 0;
      }
    }
  }
}

template <typename T>
void PackValues(const T* from, int64_t stride, int64_t count, int64_t columns, float* to) {
  const int64_t width = (columns + kVectorWords - 1) / kVectorWords * kVectorWords;
  for (int64_t key = 0; key < kPanel; ++key, to += width) {
    const int64_t there = key < count ? columns : 0;
    for (int64_t i = 0; i < there; ++i) to[i] = ToFloat(from[key * stride + i]);
    std::fill(to + there, to + width, 0.0F);
  }
}

void BestProduct(const TileProduct& tile) { HWY_DYNAMIC_DISPATCH(Product)(tile); }
void BestWeigh(const ScoreRow& row) { HWY_DYNAMIC_DISPATCH(Weigh)(row); }
void BestFinish(const float* sum, float scale, int64_t dim, float* y) {
  HWY_DYNAMIC_DISPATCH(FinishFp32)(sum, scale, dim, y);
}
void BestFinish(const float* sum, float scale, int64_t dim, Bf16* y) {
  HWY_DYNAMIC_DISPATCH(FinishBf16)(sum, scale, dim, y);
}

template <typename T>
constexpr AttentionVariant<T> kPortable = {.per_word = 1,
                                           .log_base = 1,
                                           .pack_queries = PackQueries<T>,
                                           .pack_keys = PackKeys<T>,
                                           .pack_values = PackValues<T>,
                                           .product = BestProduct,
                                           .weigh = BestWeigh,
                                           .finish = BestFinish};

}  // namespace

template <typename T>
const AttentionVariant<T>& PortableAttentionVariant() {
  return kPortable<T>;
}
template const AttentionVariant<float>& PortableAttentionVariant();
template const AttentionVariant<Bf16>& PortableAttentionVariant();

}  // namespace roofbench::kernels
#endif
