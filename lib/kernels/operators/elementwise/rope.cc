// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/rope.h"

#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/rope.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Portable(const Rope<T>& work, Range range) {
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

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Rope)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Rope)

template <typename Work>
static constexpr ShareVariant<Work> kVariants[] = {{0, Portable}};

ROOFBENCH_RUNS(rows, 1, Rope)

}  // namespace roofbench::kernels
#endif
