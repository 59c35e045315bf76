// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/gemv_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/products/gemv_portable.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include <algorithm>
#include <type_traits>

#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {

HWY_INLINE FloatVec LoadFloats(const int8_t* from) {
  const hn::Rebind<int8_t, FloatTag> bytes;
  const hn::Rebind<int32_t, FloatTag> words;
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(words, hn::LoadU(bytes, from)));
}

namespace {

// Sum of w[i] · x[i]. Eight sums side by side hide the latency of an addition.
template <typename W, typename X>
HWY_INLINE float Dot(const W* w, const X* x, int64_t k) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  FloatVec s0 = hn::Zero(d);
  FloatVec s1 = s0;
  FloatVec s2 = s0;
  FloatVec s3 = s0;
  FloatVec s4 = s0;
  FloatVec s5 = s0;
  FloatVec s6 = s0;
  FloatVec s7 = s0;
  const auto add = [&](FloatVec& sum, int64_t at)
                       HWY_ATTR { sum = hn::MulAdd(LoadFloats(w + at), LoadFloats(x + at), sum); };
  int64_t i = 0;
  for (; i + 8 * lanes <= k; i += 8 * lanes) {
    add(s0, i);
    add(s1, i + lanes);
    add(s2, i + 2 * lanes);
    add(s3, i + 3 * lanes);
    add(s4, i + 4 * lanes);
    add(s5, i + 5 * lanes);
    add(s6, i + 6 * lanes);
    add(s7, i + 7 * lanes);
  }
  for (; i + lanes <= k; i += lanes) add(s0, i);
  const FloatVec low = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const FloatVec high = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  for (; i < k; ++i) {
    if constexpr (std::is_same_v<W, int8_t>) {
      sum += static_cast<float>(w[i]) * ToFloat(x[i]);
    } else {
      sum += ToFloat(w[i]) * ToFloat(x[i]);
    }
  }
  return sum;
}

template <typename T, typename X>
HWY_INLINE void PlainRows(const T* weight, int64_t k, const X* x, float* y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) *y++ = Dot(weight + row * k, x, k);
}

void Fp32Rows(const Fp32Weight& weight, const float* x, float* y, Range rows) {
  PlainRows(weight.data, weight.k, x, y, rows);
}

void Bf16Rows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  PlainRows(weight.data, weight.k, x, y, rows);
}

void Int8Rows(const Int8Weight& weight, const float* x, float* y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    *y++ = Dot(weight.data + row * weight.k, x, weight.k) * weight.scales[row];
  }
}

// The rows of one tile that one vector holds, from `lane` on: each lane sums its own row.
HWY_INLINE void Int4Lanes(const Int4Weight& weight, const std::byte* tile, int64_t lane, const float* x, float* y) {
  const hn::CappedTag<float, kInt4TileRows> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::RebindToSigned<decltype(d)> integers;
  const auto mask = hn::Set(words, 15);
  const auto eight = hn::Set(integers, 8);
  const auto load = [&](const std::byte* at)
                        HWY_ATTR { return hn::LoadU(words, reinterpret_cast<const uint32_t*>(at) + lane); };
  auto sum = hn::Zero(d);
  for (int64_t g = 0; g < weight.k / weight.group; ++g, tile += Int4GroupBytes(weight.group)) {
    const auto scale_zero = load(tile);
    const auto scale = hn::BitCast(d, hn::ShiftLeft<16>(scale_zero));
    const auto zero = hn::BitCast(d, hn::And(scale_zero, hn::Set(words, 0xffff0000U)));
    for (int64_t word = 0; word < weight.group / 8; ++word) {
      auto bits = load(tile + 4 * kInt4TileRows * (1 + word));
      const float* const columns = x + g * weight.group + 8 * word;
      for (int64_t b = 0; b < 8; ++b) {
        // Lower halves of the four bytes belong to the first four columns, upper halves to the other four.
        const int64_t column = b / 2 + 4 * (b % 2);
        const auto q = hn::Sub(hn::BitCast(integers, hn::And(bits, mask)), eight);
        const auto w = hn::MulAdd(hn::ConvertTo(d, q), scale, zero);
        sum = hn::MulAdd(w, hn::Set(d, columns[column]), sum);
        bits = hn::ShiftRight<4>(bits);
      }
    }
  }
  hn::StoreU(sum, d, y);
}

void Int4Rows(const Int4Weight& weight, const float* x, float* y, Range rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::CappedTag<float, kInt4TileRows>()));
  for (int64_t row = rows.begin; row < rows.end; row += kInt4TileRows) {
    const std::byte* const tile = weight.data + row / kInt4TileRows * Int4TileBytes(weight.k, weight.group);
    float results[kInt4TileRows];
    for (int64_t lane = 0; lane < kInt4TileRows; lane += lanes) Int4Lanes(weight, tile, lane, x, results + lane);
    const int64_t used = std::min(kInt4TileRows, rows.end - row);
    y = std::copy_n(results, used, y);
  }
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(Fp32Rows);
HWY_EXPORT(Bf16Rows);
HWY_EXPORT(Int8Rows);
HWY_EXPORT(Int4Rows);

void PortableRows(const Fp32Weight& weight, const float* x, float* y, Range rows) {
  HWY_DYNAMIC_DISPATCH(Fp32Rows)(weight, x, y, rows);
}

void PortableRows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  HWY_DYNAMIC_DISPATCH(Bf16Rows)(weight, x, y, rows);
}

void PortableRows(const Int8Weight& weight, const float* x, float* y, Range rows) {
  HWY_DYNAMIC_DISPATCH(Int8Rows)(weight, x, y, rows);
}

void PortableRows(const Int4Weight& weight, const float* x, float* y, Range rows) {
  HWY_DYNAMIC_DISPATCH(Int4Rows)(weight, x, y, rows);
}

}  // namespace roofbench::kernels
#endif
