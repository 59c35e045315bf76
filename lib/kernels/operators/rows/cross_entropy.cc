// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/cross_entropy.h"

#include <cmath>
#include <vector>

#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/cross_entropy.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_math.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <bool kGradient, typename T>
HWY_INLINE void Rows(const CrossEntropy<T>& work, Range range) {
  const auto n = static_cast<std::size_t>(work.cols);
  std::vector<float> exponentials(kGradient ? n + FloatLanes() : 0);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    const float maximum = MaximumOf(x, n);
    const float sum = SumExponentials<kGradient>(x, n, maximum, exponentials.data());
    // Read the target's logit first: the gradient may overwrite it. The difference of two logits is exact where the
    // logarithm alone would round.
    work.loss[row] = std::log(sum) + (maximum - ToFloat(x[work.target[row]]));
    if constexpr (kGradient) {
      T* gradient = work.gradient + row * work.gradient_stride;
      StoreScaled(exponentials.data(), n, work.scale / sum, gradient);
      const float probability = exponentials[static_cast<std::size_t>(work.target[row])] / sum;
      gradient[work.target[row]] = Rounded<T>((probability - 1) * work.scale);
    }
  }
}

template <typename T>
HWY_INLINE void Either(const CrossEntropy<T>& work, Range range) {
  if (work.gradient != nullptr) {
    Rows<true>(work, range);
  } else {
    Rows<false>(work, range);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Either, CrossEntropy)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Either, CrossEntropy)

void Run(const CrossEntropy<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { Either(work, range); });
}

void Run(const CrossEntropy<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { Either(work, range); });
}

}  // namespace roofbench::kernels
#endif
