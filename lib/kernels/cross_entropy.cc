#include "lib/kernels/cross_entropy.h"

#include <cmath>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/cross_entropy.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "lib/kernels/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE float MaximumOf(const T* x, std::size_t n) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec least = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVec maxima[2] = {least, least};
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    maxima[0] = hn::Max(maxima[0], LoadFloats(x + i));
    maxima[1] = hn::Max(maxima[1], LoadFloats(x + i + lanes));
  }
  for (; i < n; i += lanes) {
    const FloatVec value = LoadSome(x + i, n - i);
    maxima[0] = hn::Max(maxima[0], n - i < lanes ? hn::IfThenElse(hn::FirstN(d, n - i), value, least) : value);
  }
  return MaxOf(hn::Max(maxima[0], maxima[1]));
}

// Highway's Exp makes 0 of a NaN.
HWY_INLINE FloatVec Exponential(FloatVec x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(FloatTag(), x)); }

// The sum of exp(x - maximum), which wait in `exponentials` (whole vectors) if that is wanted.
template <bool kKeep, typename T>
HWY_INLINE float SumExponentials(const T* x, std::size_t n, float maximum, float* exponentials) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec maxima = hn::Set(d, maximum);
  FloatVec sums = hn::Zero(d);
  for (std::size_t i = 0; i < n; i += lanes) {
    const FloatVec e = KeepFirst(Exponential(hn::Sub(LoadSome(x + i, n - i), maxima)), n - i);
    if constexpr (kKeep) hn::StoreU(e, d, exponentials + i);
    sums = hn::Add(sums, e);
  }
  return SumOf(sums);
}

template <bool kGradient, typename T>
HWY_INLINE void Rows(const CrossEntropy<T>& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  std::vector<float> exponentials(kGradient ? n + lanes : 0);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    const float maximum = MaximumOf(x, n);
    const float sum = SumExponentials<kGradient>(x, n, maximum, exponentials.data());
    // The target's logit first: the gradient may overwrite it. The difference of two logits is exact where the
    // logarithm alone would round.
    work.loss[row] = std::log(sum) + (maximum - ToFloat(x[work.target[row]]));
    if constexpr (kGradient) {
      T* gradient = work.gradient + row * work.gradient_stride;
      const FloatVec scale = hn::Set(d, work.scale / sum);
      for (std::size_t i = 0; i < n; i += lanes) {
        StoreSome(hn::Mul(hn::LoadU(d, exponentials.data() + i), scale), gradient + i, n - i);
      }
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

void RowsFp32(const CrossEntropy<float>& work, Range range) { Either(work, range); }
void RowsBf16(const CrossEntropy<Bf16>& work, Range range) { Either(work, range); }

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(RowsFp32);
HWY_EXPORT(RowsBf16);

void Run(const CrossEntropy<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { HWY_DYNAMIC_DISPATCH(RowsFp32)(work, range); });
}

void Run(const CrossEntropy<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) { HWY_DYNAMIC_DISPATCH(RowsBf16)(work, range); });
}

}  // namespace roofbench::kernels
#endif
