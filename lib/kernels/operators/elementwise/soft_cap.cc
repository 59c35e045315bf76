// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/soft_cap.h"

#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/soft_cap.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE void Portable(const SoftCap& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec cap = hn::Set(d, work.cap);
  const FloatVec share = hn::Set(d, work.scale / work.cap);
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec x = LoadSome(work.x + i, end - i);
    // Highway's function makes a number of a NaN.
    const FloatVec bent = hn::Mul(cap, hn::Tanh(d, hn::Mul(x, share)));
    StoreSome(hn::IfThenElse(hn::IsNaN(x), x, bent), work.y + i, end - i);
  }
}

ROOFBENCH_HIGHWAY_INSTANCE(Portable, SoftCap, SoftCap)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCH(Portable, SoftCap, SoftCap)

void Run(const SoftCap& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { Portable(work, range); });
}

}  // namespace roofbench::kernels
#endif
