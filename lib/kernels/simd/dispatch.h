// SPDX-License-Identifier: Apache-2.0
// Selection of a kernel's variant, and its distribution over threads.
//
// A kernel that is written once with Highway is a template `name(const Work&, Range)`. Highway's tables of targets hold
// plain functions, neither templates nor overloads: hence the macros, which make a name for each type of element.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Computes a share of some work on the calling thread.
template <typename Work>
using ShareFunction = void (*)(const Work& work, Range share);
template <typename Work>
using ShareVariant = IsaVariant<ShareFunction<Work>>;

// The grain of work that is one run of elements: shares begin on pages.
inline constexpr int64_t kGrainElements = 4096;

// Shares of [0, n) that begin on multiples of `grain`, by the best row of a table of ShareVariants.
template <const auto& kTable, typename Work>
void RunShares(const Work& work, int64_t n, int64_t grain, const ParallelFor& parallel_for) {
  const ShareFunction<Work> share = BestVariant<kTable>();
  parallel_for(n, grain, [&](Range range) { share(work, range); });
}

}  // namespace roofbench::kernels

// After the template, in the namespace of the target: the instance for one type of work, whose name ends in `suffix`.
#define ROOFBENCH_HIGHWAY_INSTANCE(name, suffix, ...) \
  void name##suffix(const __VA_ARGS__& work, Range range) { name(work, range); }

// Where HWY_ONCE: an overload of `name` that calls the instance for the best target.
#define ROOFBENCH_HIGHWAY_DISPATCH(name, suffix, ...) \
  HWY_EXPORT(name##suffix);                           \
  static void name(const __VA_ARGS__& work, Range range) { HWY_DYNAMIC_DISPATCH(name##suffix)(work, range); }

// Both for Work<float> and Work<Bf16>.
#define ROOFBENCH_HIGHWAY_INSTANCES(name, Work)             \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Bf16, Work<Bf16>)
#define ROOFBENCH_HIGHWAY_DISPATCHES(name, Work)            \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Bf16, Work<Bf16>)
