// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/gelu_tanh_mul.h"

#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/gelu_tanh_mul.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_exponentials.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Portable(const GeluTanhMul<T>& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  constexpr float kTwice = 1.5957691216057308F;  // 2 · sqrt(2/π)
  const FloatVec linear = hn::Set(d, -kTwice);
  const FloatVec cubic = hn::Set(d, -kTwice * 0.044715F);
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec x = LoadSome(work.gate + i, end - i);
    const FloatVec minus_2u = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), cubic, linear));
    StoreSome(hn::Mul(hn::Div(x, OnePlusExp(minus_2u)), LoadSome(work.up + i, end - i)), work.y + i, end - i);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, GeluTanhMul)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, GeluTanhMul)

void Run(const GeluTanhMul<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { Portable(work, range); });
}

void Run(const GeluTanhMul<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { Portable(work, range); });
}

}  // namespace roofbench::kernels
#endif
