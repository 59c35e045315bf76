#include "lib/kernels/softmax.h"

#include <limits>
#include <vector>

#include "lib/kernels/isa.h"
#include "lib/kernels/softmax_avx512.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/softmax.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "lib/kernels/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Rows(const Softmax<T>& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  const FloatVec least = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::vector<float> exponentials(n + lanes);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    T* y = work.y + row * work.y_stride;
    FloatVec maxima = least;
    for (std::size_t i = 0; i < n; i += lanes) {
      const FloatVec value = LoadSome(x + i, n - i);
      maxima = hn::Max(maxima, n - i < lanes ? hn::IfThenElse(hn::FirstN(d, n - i), value, least) : value);
    }
    const FloatVec maximum = hn::Set(d, MaxOf(maxima));
    FloatVec sums = hn::Zero(d);
    for (std::size_t i = 0; i < n; i += lanes) {
      const FloatVec off = hn::Sub(LoadSome(x + i, n - i), maximum);
      // Highway's Exp makes 0 of a NaN.
      const FloatVec exponential = KeepFirst(hn::IfThenElse(hn::IsNaN(off), off, hn::Exp(d, off)), n - i);
      hn::StoreU(exponential, d, exponentials.data() + i);
      sums = hn::Add(sums, exponential);
    }
    const FloatVec scale = hn::Set(d, 1 / SumOf(sums));
    for (std::size_t i = 0; i < n; i += lanes) {
      StoreSome(hn::Mul(hn::LoadU(d, exponentials.data() + i), scale), y + i, n - i);
    }
  }
}

void RowsFp32(const Softmax<float>& work, Range range) { Rows(work, range); }
void RowsBf16(const Softmax<Bf16>& work, Range range) { Rows(work, range); }

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(RowsFp32);
HWY_EXPORT(RowsBf16);

namespace {

void Portable(const Softmax<float>& work, Range range) { HWY_DYNAMIC_DISPATCH(RowsFp32)(work, range); }
void Portable(const Softmax<Bf16>& work, Range range) { HWY_DYNAMIC_DISPATCH(RowsBf16)(work, range); }

template <typename T>
void RunRows(const Softmax<T>& work, const ParallelFor& parallel_for) {
  parallel_for(work.rows, [&](Range range) {
#if ROOFBENCH_X86
    if (IsaHas(kAvx512Bf16)) return avx512::SoftmaxRows(work, range);
#endif
    Portable(work, range);
  });
}

}  // namespace

void Run(const Softmax<float>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const Softmax<Bf16>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }

}  // namespace roofbench::kernels
#endif
