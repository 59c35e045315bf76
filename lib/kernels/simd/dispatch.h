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

// A function that computes a share of some work on the calling thread.
template <typename Work>
using ShareVariant = IsaVariant<void (*)(const Work& work, Range share)>;

// The grain of work that is one run of elements: shares begin on pages.
inline constexpr int64_t kGrainElements = 4096;

}  // namespace roofbench::kernels

// After the template, in the namespace of the target: the instance for one type of work, whose name ends in `suffix`.
#define ROOFBENCH_HIGHWAY_INSTANCE(name, suffix, ...) \
  void name##suffix(const __VA_ARGS__& work, Range range) { name(work, range); }

// Where HWY_ONCE: an overload of `name` that calls the instance for the best target.
#define ROOFBENCH_HIGHWAY_DISPATCH(name, suffix, ...) \
  HWY_EXPORT(name##suffix);                           \
  static void name(const __VA_ARGS__& work, Range range) { HWY_DYNAMIC_DISPATCH(name##suffix)(work, range); }

// The function Run for one type of work: shares of [0, work.items) that begin on multiples of `grain`, by the best
// variant of the table kVariants<Work>.
#define ROOFBENCH_RUN(items, grain, ...)                                       \
  void Run(const __VA_ARGS__& work, const ParallelFor& parallel_for) {         \
    const auto share = BestVariant<kVariants<__VA_ARGS__>>();                  \
    parallel_for(work.items, grain, [&](Range range) { share(work, range); }); \
  }

// Each for Work<float> and Work<Bf16>.
#define ROOFBENCH_HIGHWAY_INSTANCES(name, Work)             \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Bf16, Work<Bf16>)
#define ROOFBENCH_HIGHWAY_DISPATCHES(name, Work)            \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Bf16, Work<Bf16>)
#define ROOFBENCH_RUNS(items, grain, Work) \
  ROOFBENCH_RUN(items, grain, Work<float>) \
  ROOFBENCH_RUN(items, grain, Work<Bf16>)
