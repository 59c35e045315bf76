// SPDX-License-Identifier: Apache-2.0
// The gradient of attention in fp32, and in bf16 where a processor has no dot products of it: a word is a float.
#include "lib/kernels/operators/attention/attention_gradient_variant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "lib/kernels/operators/attention/attention_gradient_portable.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include <algorithm>

#include "lib/kernels/simd/highway_exponentials.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

void WeighGradient(const GradientRows& rows) {
  const FloatVec scale = hn::Set(FloatTag(), rows.scale);
  const auto end = static_cast<std::size_t>(rows.end);
  for (float* const row : {rows.scores, rows.products}) {
    std::fill(row + rows.begin, row + rows.first[0], 0.0F);
    std::fill(row + rows.end, row + rows.until, 0.0F);
  }
  for (auto i = static_cast<std::size_t>(rows.first[0]); i < end; i += FloatLanes()) {
    const std::size_t some = end - i;
    const FloatVec score = LoadSome(rows.scores + i, some);
    const FloatVec p = Exponential(hn::MulSub(score, scale, LoadSome(rows.log_sum_exp + i, some)));
    const FloatVec product = hn::Sub(LoadSome(rows.products + i, some), LoadSome(rows.corrections + i, some));
    StoreSome(p, rows.scores + i, some);
    StoreSome(hn::Mul(p, product), rows.products + i, some);
  }
}

template <typename T>
HWY_INLINE float DotOf(const T* a, const T* b, int64_t n) {
  const auto count = static_cast<std::size_t>(n);
  FloatVec sum = hn::Zero(FloatTag());
  for (std::size_t i = 0; i < count; i += FloatLanes()) {
    sum = hn::MulAdd(LoadSome(a + i, count - i), LoadSome(b + i, count - i), sum);
  }
  return SumOf(sum);
}
float DotFp32(const float* a, const float* b, int64_t n) { return DotOf(a, b, n); }
float DotBf16(const Bf16* a, const Bf16* b, int64_t n) { return DotOf(a, b, n); }

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

HWY_EXPORT(WeighGradient);
HWY_EXPORT(DotFp32);
HWY_EXPORT(DotBf16);

void BestWeigh(const GradientRows& rows) { HWY_DYNAMIC_DISPATCH(WeighGradient)(rows); }
float BestDot(const float* a, const float* b, int64_t n) { return HWY_DYNAMIC_DISPATCH(DotFp32)(a, b, n); }
float BestDot(const Bf16* a, const Bf16* b, int64_t n) { return HWY_DYNAMIC_DISPATCH(DotBf16)(a, b, n); }

template <typename T>
constexpr AttentionGradientVariant<T> kPortable = {
    .forward = PortableAttentionVariant<T>, .weigh = BestWeigh, .dot = BestDot};

}  // namespace

template <typename T>
const AttentionGradientVariant<T>& PortableAttentionGradientVariant() {
  return kPortable<T>;
}
template const AttentionGradientVariant<float>& PortableAttentionGradientVariant();
template const AttentionGradientVariant<Bf16>& PortableAttentionGradientVariant();

}  // namespace roofbench::kernels
#endif
