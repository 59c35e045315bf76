// SPDX-License-Identifier: Apache-2.0
// Work that threads share: each share by the best variant that this processor has.
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

// Of work that is one run of elements: shares begin on pages.
inline constexpr int64_t kGrainElements = 4096;

// Shares of [0, n) that begin on multiples of `grain`, by the best row of a table of ShareVariants.
template <const auto& kTable, typename Work>
void RunShares(const Work& work, int64_t n, int64_t grain, const ParallelFor& parallel_for) {
  const ShareFunction<Work> share = BestVariant<kTable>();
  parallel_for(n, grain, [&](Range range) { share(work, range); });
}

}  // namespace roofbench::kernels
