// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/softmax.h"

#include <vector>

#include "lib/kernels/operators/rows/softmax_avx512.h"
#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/softmax.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_exponentials.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Portable(const Softmax<T>& work, Range range) {
  const auto n = static_cast<std::size_t>(work.cols);
  std::vector<float> exponentials(n + FloatLanes());
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    const float sum = SumExponentials<true>(x, n, MaximumOf(x, n), exponentials.data());
    StoreScaled(exponentials.data(), n, 1 / sum, work.y + row * work.y_stride);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Softmax)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Softmax)

namespace {

template <typename T>
constexpr ShareVariant<Softmax<T>> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, Avx512Share},
#endif
    {0, Portable},
};

}  // namespace

void Run(const Softmax<float>& work, const ParallelFor& parallel_for) {
  RunShares<kVariants<float>>(work, work.rows, 1, parallel_for);
}

void Run(const Softmax<Bf16>& work, const ParallelFor& parallel_for) {
  RunShares<kVariants<Bf16>>(work, work.rows, 1, parallel_for);
}

}  // namespace roofbench::kernels
#endif
