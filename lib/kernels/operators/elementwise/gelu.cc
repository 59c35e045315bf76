// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/gelu.h"

#include <iterator>

#include "lib/kernels/operators/elementwise/activations_avx512.h"
#include "lib/kernels/operators/elementwise/gelu_tail.h"
#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/gelu.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// Φ(x), and exp(-x²/2), of which it is made.
struct Normal {
  FloatVec share;
  FloatVec exponential;
};

HWY_INLINE Normal NormalAt(FloatVec x) {
  using Tail = GeluTail<float>;
  constexpr std::size_t kDegree = std::size(Tail::kPolynomial) - 1;
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0F);
  const FloatVec t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, Tail::kNear), one));
  FloatVec p = hn::Set(d, Tail::kPolynomial[kDegree]);
  for (std::size_t k = kDegree; k-- > 0;) p = hn::MulAdd(p, t, hn::Set(d, Tail::kPolynomial[k]));
  // Below -104 exp is zero in fp32, and Highway's is not defined at -infinity.
  const FloatVec power = hn::Max(hn::Set(d, -104.5F), hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
  const FloatVec exponential = hn::Exp(d, power);
  const FloatVec tail = hn::Mul(hn::Mul(t, p), exponential);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), exponential};
}

template <typename T>
HWY_INLINE void Portable(const Gelu<T>& work, Range range) {
  const std::size_t lanes = FloatLanes();
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec x = LoadSome(work.x + i, end - i);
    StoreSome(hn::Mul(x, NormalAt(x).share), work.y + i, end - i);
  }
}

template <typename T>
HWY_INLINE void PortableGradient(const GeluGradient<T>& work, Range range) {
  const FloatVec density = hn::Set(FloatTag(), 0.398942280401432678F);  // 1 / sqrt(2π)
  const std::size_t lanes = FloatLanes();
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec x = LoadSome(work.x + i, end - i);
    const Normal normal = NormalAt(x);
    const FloatVec slope = hn::MulAdd(hn::Mul(x, density), normal.exponential, normal.share);
    StoreSome(hn::Mul(LoadSome(work.dy + i, end - i), slope), work.dx + i, end - i);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Gelu)
ROOFBENCH_HIGHWAY_INSTANCES(PortableGradient, GeluGradient)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Gelu)
ROOFBENCH_HIGHWAY_DISPATCHES(PortableGradient, GeluGradient)

namespace {

template <typename T>
constexpr ShareVariant<Gelu<T>> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, Avx512Share},
#endif
    {0, Portable},
};

}  // namespace

void Run(const Gelu<float>& work, const ParallelFor& parallel_for) {
  RunShares<kVariants<float>>(work, work.n, kGrainElements, parallel_for);
}

void Run(const Gelu<Bf16>& work, const ParallelFor& parallel_for) {
  RunShares<kVariants<Bf16>>(work, work.n, kGrainElements, parallel_for);
}

void Run(const GeluGradient<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { PortableGradient(work, range); });
}

void Run(const GeluGradient<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { PortableGradient(work, range); });
}

}  // namespace roofbench::kernels
#endif
