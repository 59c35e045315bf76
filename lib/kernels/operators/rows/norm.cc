// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm.h"

#include <type_traits>
#include <vector>

#include "lib/kernels/operators/rows/norm_avx512.h"
#include "lib/kernels/operators/rows/norm_statistics.h"
#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/norm.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// Four sums side by side: faster, and shorter sums lose less.
template <typename T>
HWY_INLINE void SumsAbout(const T* x, std::size_t n, float pivot, float& sum, float& squares) {
  constexpr std::size_t kSums = 4;
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec pivots = hn::Set(d, pivot);
  FloatVec sums[kSums];
  FloatVec square_sums[kSums];
  for (std::size_t s = 0; s < kSums; ++s) sums[s] = square_sums[s] = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
    for (std::size_t s = 0; s < kSums; ++s) {
      const FloatVec off = hn::Sub(LoadFloats(x + i + s * lanes), pivots);
      sums[s] = hn::Add(sums[s], off);
      square_sums[s] = hn::MulAdd(off, off, square_sums[s]);
    }
  }
  for (; i < n; i += lanes) {
    const FloatVec off = KeepFirst(hn::Sub(LoadSome(x + i, n - i), pivots), n - i);
    sums[0] = hn::Add(sums[0], off);
    square_sums[0] = hn::MulAdd(off, off, square_sums[0]);
  }
  sum = SumOf(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  squares = SumOf(hn::Add(hn::Add(square_sums[0], square_sums[1]), hn::Add(square_sums[2], square_sums[3])));
}

template <typename T>
HWY_INLINE RowStatistics StatisticsOf(const LayerNorm<T>& work, const T* x, int64_t row) {
  const auto n = static_cast<std::size_t>(work.cols);
  float sum = 0;
  float squares = 0;
  SumsAbout(x, n, 0, sum, squares);
  RowStatistics statistics;
  if (Cancels(sum, squares, work.cols)) {
    const float pivot = sum / static_cast<float>(work.cols);
    SumsAbout(x, n, pivot, sum, squares);
    statistics = LayerStatisticsAbout(pivot, sum, squares, work.cols, work.eps);
  } else {
    statistics = LayerStatistics(sum, squares, work.cols, work.eps);
  }
  if (work.mean != nullptr) work.mean[row] = statistics.mean + statistics.mean_low;
  return statistics;
}

template <typename X, typename Y>
HWY_INLINE RowStatistics StatisticsOf(const RmsNorm<X, Y>& work, const X* x, int64_t) {
  float sum = 0;
  float squares = 0;
  SumsAbout(x, static_cast<std::size_t>(work.cols), 0, sum, squares);
  return RmsStatistics(squares, work.cols, work.eps);
}

template <typename T>
HWY_INLINE FloatVec Shifted(const LayerNorm<T>& work, FloatVec scaled, std::size_t i, std::size_t count) {
  return hn::Add(scaled, LoadSome(work.bias + i, count));
}
template <typename X, typename Y>
HWY_INLINE FloatVec Shifted(const RmsNorm<X, Y>&, FloatVec scaled, std::size_t, std::size_t) {
  return scaled;
}

template <typename Work>
HWY_INLINE void Portable(const Work& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const auto* x = work.x + row * work.x_stride;
    auto* y = work.y + row * work.y_stride;
    const RowStatistics statistics = StatisticsOf(work, x, row);
    if (work.rstd != nullptr) work.rstd[row] = statistics.rstd;
    const FloatVec mean = hn::Set(d, statistics.mean);
    const FloatVec rstd = hn::Set(d, statistics.rstd);
    const FloatVec shift = hn::Set(d, -statistics.mean_low * statistics.rstd);
    for (std::size_t i = 0; i < n; i += lanes) {
      const FloatVec unit = hn::MulAdd(hn::Sub(LoadSome(x + i, n - i), mean), rstd, shift);
      const FloatVec scaled = hn::Mul(unit, LoadSome(work.weight + i, n - i));
      StoreSome(Shifted(work, scaled, i, n - i), y + i, n - i);
    }
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, LayerNorm)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, RmsNorm)
ROOFBENCH_HIGHWAY_INSTANCE(Portable, RmsNormRounded, RmsNorm<float, Bf16>)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, LayerNorm)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, RmsNorm)
ROOFBENCH_HIGHWAY_DISPATCH(Portable, RmsNormRounded, RmsNorm<float, Bf16>)

namespace {

template <typename Work>
constexpr ShareVariant<Work> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, Avx512Share},
#endif
    {0, Portable},
};

template <typename Work>
void RunRows(Work work, const ParallelFor& parallel_for) {
  // A norm without weight or bias takes ones and zeros: there is one loop.
  std::vector<float> ones;
  std::vector<float> zeros;
  if (work.weight == nullptr) {
    ones.assign(static_cast<std::size_t>(work.cols), 1.0F);
    work.weight = ones.data();
  }
  if constexpr (requires { work.bias; }) {
    if (work.bias == nullptr) {
      zeros.assign(static_cast<std::size_t>(work.cols), 0.0F);
      work.bias = zeros.data();
    }
  }
  RunShares<kVariants<Work>>(work, work.rows, 1, parallel_for);
}

}  // namespace

void Run(const LayerNorm<float>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const LayerNorm<Bf16>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const RmsNorm<float>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const RmsNorm<Bf16>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const RmsNorm<float, Bf16>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }

}  // namespace roofbench::kernels
#endif
