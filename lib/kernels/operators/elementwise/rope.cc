// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/rope.h"

#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/rope.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_math.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Rows(const Rope<T>& work, Range range) {
  const std::size_t lanes = FloatLanes();
  const auto half = static_cast<std::size_t>(work.cols / 2);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    T* y = work.y + row * work.y_stride;
    const int64_t angles = row % work.positions * (work.cols / 2);
    for (std::size_t i = 0; i < half; i += lanes) {
      const std::size_t count = half - i;
      const FloatVec cosine = LoadSome(work.cosines + angles + i, count);
      const FloatVec sine = LoadSome(work.sines + angles + i, count);
      const FloatVec first = LoadSome(x + i, count);
      const FloatVec second = LoadSome(x + half + i, count);
      StoreSome(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), y + i, count);
      StoreSome(hn::MulAdd(first, sine, hn::Mul(second, cosine)), y + half + i, count);
    }
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Rows, Rope)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Rows, Rope)

void Run(const Rope<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { Rows(work, range); });
}

void Run(const Rope<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { Rows(work, range); });
}

}  // namespace roofbench::kernels
#endif
