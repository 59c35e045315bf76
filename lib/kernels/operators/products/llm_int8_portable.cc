// SPDX-License-Identifier: Apache-2.0
// LLM.int8() with Highway. Products are made in 16 bits, whose dot product every vector unit has; Highway 1.0.3 has not
// that of 8 bits.
#include "lib/kernels/operators/products/llm_int8_variant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/products/llm_int8_portable.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// Which magnitudes stay below `threshold` (0: all).
HWY_INLINE auto Below(FloatVec magnitude, float threshold) {
  const FloatTag d;
  if (threshold > 0) return hn::Lt(magnitude, hn::Set(d, threshold));
  return hn::Le(magnitude, hn::Set(d, std::numeric_limits<float>::infinity()));
}

float Largest(const Bf16* x, int64_t k, float threshold, uint8_t* is_outlier) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  FloatVec largest = hn::Zero(d);
  for (int64_t i = 0; i < k; i += lanes) {
    const FloatVec magnitude = hn::Abs(LoadSome(x + i, static_cast<std::size_t>(k - i)));
    largest = hn::Max(largest, hn::IfThenElseZero(Below(magnitude, threshold), magnitude));
    if (threshold <= 0 || hn::AllFalse(d, hn::Ge(magnitude, hn::Set(d, threshold)))) continue;
    for (int64_t j = i; j < std::min(i + lanes, k); ++j) {
      // Another thread may find the same column in another row.
      if (std::abs(ToFloat(x[j])) >= threshold) std::atomic_ref(is_outlier[j]).store(1, std::memory_order_relaxed);
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

// sums[c] += w · x[c] for a vector of either.
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

// Columns [begin, begin + kVectors vectors) of a row of x, whose last may be of fewer.
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
    values[v] = hn::Mul(whole, hn::Mul(scale, LoadSome(work.w_max + begin + v * lanes, left)));
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

HWY_EXPORT(Largest);
HWY_EXPORT(Quantize);
HWY_EXPORT(Rows);
ROOFBENCH_HIGHWAY_DISPATCHES(Dequantize, Int8Dequantized)

float BestLargest(const Bf16* x, int64_t k, float threshold, uint8_t* is_outlier) {
  return HWY_DYNAMIC_DISPATCH(Largest)(x, k, threshold, is_outlier);
}
int32_t BestQuantize(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to) {
  return HWY_DYNAMIC_DISPATCH(Quantize)(x, k, threshold, inverse, to);
}
void BestRows(const Int8Block& block) { HWY_DYNAMIC_DISPATCH(Rows)(block); }

}  // namespace

const LlmInt8Variant& PortableLlmInt8Variant() {
  static constexpr LlmInt8Variant kVariant = {
      .largest = BestLargest, .quantize = BestQuantize, .few_rows = BestRows, .pack = nullptr, .many_rows = nullptr};
  return kVariant;
}

void DequantizeBlock(const Int8Dequantized<float>& work, Range m) { Dequantize(work, m); }
void DequantizeBlock(const Int8Dequantized<Bf16>& work, Range m) { Dequantize(work, m); }

}  // namespace roofbench::kernels
#endif
