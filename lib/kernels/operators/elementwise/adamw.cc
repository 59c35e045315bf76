// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/adamw.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/adamw.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

#ifndef ROOFBENCH_KERNELS_ADAMW_FACTORS_
#define ROOFBENCH_KERNELS_ADAMW_FACTORS_
namespace roofbench::kernels {
// The factors of every element, computed once per step in double precision.
struct AdamWFactors {
  float keep;            // 1 - lr · weight_decay
  float new_mean;        // 1 - beta1
  float old_square;      // beta2
  float new_square;      // 1 - beta2
  float step_size;       // lr / (1 - beta1^t)
  float inverse_square;  // 1 / sqrt(1 - beta2^t)
  float eps;
};
}  // namespace roofbench::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// 1 KiB ahead of four streams; further ahead, the lines of a short share are fetched in vain.
constexpr std::size_t kAhead = 1024 / sizeof(float);

// Prefetches into the second-level cache: four streams that begin on pages share the sets of the first one, and a step
// took 13 % longer with hwy::Prefetch, which fetches into the first (100 M parameters, two-core EPYC, 2026-11-21).
void Fetch(const float* at) { __builtin_prefetch(at + kAhead, /*rw=*/0, /*locality=*/2); }

void Update(const AdamWTensor& tensor, const AdamWFactors& factors, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec keep = hn::Set(d, factors.keep);
  const FloatVec new_mean = hn::Set(d, factors.new_mean);
  const FloatVec old_square = hn::Set(d, factors.old_square);
  const FloatVec new_square = hn::Set(d, factors.new_square);
  const FloatVec step_size = hn::Set(d, factors.step_size);
  const FloatVec inverse_square = hn::Set(d, factors.inverse_square);
  const FloatVec eps = hn::Set(d, factors.eps);
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    Fetch(tensor.parameter + i);
    Fetch(tensor.gradient + i);
    Fetch(tensor.mean + i);
    Fetch(tensor.square + i);
    const std::size_t left = end - i;
    const FloatVec gradient = LoadSome(tensor.gradient + i, left);
    const FloatVec old_mean = LoadSome(tensor.mean + i, left);
    const FloatVec mean = hn::MulAdd(hn::Sub(gradient, old_mean), new_mean, old_mean);
    const FloatVec square =
        hn::MulAdd(hn::Mul(gradient, gradient), new_square, hn::Mul(LoadSome(tensor.square + i, left), old_square));
    const FloatVec divisor = hn::MulAdd(hn::Sqrt(square), inverse_square, eps);
    const FloatVec update = hn::Mul(step_size, hn::Div(mean, divisor));
    StoreSome(hn::Sub(hn::Mul(LoadSome(tensor.parameter + i, left), keep), update), tensor.parameter + i, left);
    StoreSome(mean, tensor.mean + i, left);
    StoreSome(square, tensor.square + i, left);
  }
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(Update);

void Run(const AdamW& work, const ParallelFor& parallel_for) {
  const double t = static_cast<double>(work.step);
  const double mean_correction = 1 - std::pow(work.beta1, t);
  const double square_correction = 1 - std::pow(work.beta2, t);
  const AdamWFactors factors = {.keep = static_cast<float>(1 - work.lr * work.weight_decay),
                                .new_mean = static_cast<float>(1 - work.beta1),
                                .old_square = static_cast<float>(work.beta2),
                                .new_square = static_cast<float>(1 - work.beta2),
                                .step_size = static_cast<float>(work.lr / mean_correction),
                                .inverse_square = static_cast<float>(1 / std::sqrt(square_correction)),
                                .eps = static_cast<float>(work.eps)};
  int64_t elements = 0;
  for (const AdamWTensor& tensor : work.tensors) elements += tensor.n;
  // One split over all tensors, however small some are. Shares begin on pages.
  constexpr int64_t kGrain = 4096 / sizeof(float);
  parallel_for(elements, kGrain, [&](Range range) {
    int64_t first = 0;  // of this tensor, counted over all
    for (const AdamWTensor& tensor : work.tensors) {
      const Range own = {std::max<int64_t>(range.begin - first, 0), std::min(range.end - first, tensor.n)};
      if (own.size() > 0) HWY_DYNAMIC_DISPATCH(Update)(tensor, factors, own);
      first += tensor.n;
    }
  });
}

}  // namespace roofbench::kernels
#endif
