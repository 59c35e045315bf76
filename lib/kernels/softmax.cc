#include "lib/kernels/softmax.h"

#include <vector>

#include "lib/kernels/highway_dispatch.h"
#include "lib/kernels/parts.h"
#include "lib/kernels/softmax_avx512.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/softmax.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/highway_exponentials.inc"

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

ROOFBENCH_HIGHWAY_DISPATCH(Portable, Softmax)

void Run(const Softmax<float>& work, const ParallelFor& parallel_for) {
  RunParts(work, work.rows, 1, parallel_for, Portable);
}

void Run(const Softmax<Bf16>& work, const ParallelFor& parallel_for) {
  RunParts(work, work.rows, 1, parallel_for, Portable);
}

}  // namespace roofbench::kernels
#endif
