// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm_gradient.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/norm_gradient.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// The rows of `range`, their sums over columns added to dweight and dbias.
template <bool kCenters, typename T>
HWY_INLINE void Rows(const NormGradient<T>& work, Range range, float* dweight, float* dbias) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  const float per_column = 1 / static_cast<float>(work.cols);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    const T* dy = work.dy + row * work.x_stride;
    T* dx = work.dx + row * work.dx_stride;
    const FloatVec mean = hn::Set(d, kCenters ? work.mean[row] : 0);
    const FloatVec rstd = hn::Set(d, work.rstd[row]);
    const auto unit = [&](FloatVec value) HWY_ATTR { return hn::Mul(kCenters ? hn::Sub(value, mean) : value, rstd); };
    FloatVec sums = hn::Zero(d);
    FloatVec products = hn::Zero(d);
    for (std::size_t i = 0; i < n; i += lanes) {
      // Behind the row's end dy is zero, and so are the gradient and its product.
      const FloatVec gradient = hn::Mul(LoadSome(dy + i, n - i), LoadSome(work.weight + i, n - i));
      const FloatVec u = KeepFirst(unit(LoadSome(x + i, n - i)), n - i);
      if constexpr (kCenters) sums = hn::Add(sums, gradient);
      products = hn::MulAdd(gradient, u, products);
    }
    const FloatVec shift = hn::Set(d, kCenters ? -SumOf(sums) * per_column : 0);
    const FloatVec slope = hn::Set(d, SumOf(products) * per_column);
    for (std::size_t i = 0; i < n; i += lanes) {
      const std::size_t count = n - i;
      const FloatVec out = LoadSome(dy + i, count);
      const FloatVec u = unit(LoadSome(x + i, count));
      FloatVec gradient = hn::NegMulAdd(u, slope, hn::Mul(out, LoadSome(work.weight + i, count)));
      if constexpr (kCenters) gradient = hn::Add(gradient, shift);
      StoreSome(hn::MulAdd(out, u, LoadSome(dweight + i, count)), dweight + i, count);
      if constexpr (kCenters) StoreSome(hn::Add(out, LoadSome(dbias + i, count)), dbias + i, count);
      StoreSome(hn::Mul(gradient, rstd), dx + i, count);
    }
  }
}

template <typename T>
HWY_INLINE void Either(const NormGradient<T>& work, Range range, float* dweight, float* dbias) {
  if (work.mean != nullptr) {
    Rows<true>(work, range, dweight, dbias);
  } else {
    Rows<false>(work, range, dweight, dbias);
  }
}

void RowsFp32(const NormGradient<float>& work, Range range, float* dweight, float* dbias) {
  Either(work, range, dweight, dbias);
}
void RowsBf16(const NormGradient<Bf16>& work, Range range, float* dweight, float* dbias) {
  Either(work, range, dweight, dbias);
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(RowsFp32);
HWY_EXPORT(RowsBf16);

namespace {

void Rows(const NormGradient<float>& work, Range range, float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(RowsFp32)(work, range, dweight, dbias);
}
void Rows(const NormGradient<Bf16>& work, Range range, float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(RowsBf16)(work, range, dweight, dbias);
}

template <typename T>
void RunRows(const NormGradient<T>& work, const ParallelFor& parallel_for) {
  constexpr int64_t kGrain = 16;  // columns: a cache line of sums belongs to one thread
  const int shares = parallel_for.threads();
  // Share by share, so that a result does not depend on which thread took which.
  parallel_for(shares, [&](Range range) {
    for (int64_t share = range.begin; share < range.end; ++share) {
      float* sums = work.scratch + share * 2 * work.cols;
      std::fill(sums, sums + 2 * work.cols, 0.0F);
      Rows(work, Share(work.rows, 1, static_cast<int>(share), shares), sums, sums + work.cols);
    }
  });
  parallel_for(work.cols, kGrain, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      float weight = 0;
      float bias = 0;
      for (int64_t share = 0; share < shares; ++share) {
        weight += work.scratch[share * 2 * work.cols + i];
        bias += work.scratch[(share * 2 + 1) * work.cols + i];
      }
      work.dweight[i] = weight;
      if (work.dbias != nullptr) work.dbias[i] = bias;
    }
  });
}

}  // namespace

void Run(const NormGradient<float>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }
void Run(const NormGradient<Bf16>& work, const ParallelFor& parallel_for) { RunRows(work, parallel_for); }

}  // namespace roofbench::kernels
#endif
