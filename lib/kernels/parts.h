// Work that threads share: each part with AVX-512 where this processor has it, else with Highway.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/kernels/isa.h"
#include "lib/kernels/parallel_for.h"

namespace roofbench::kernels {

// Of work that is one run of elements: parts begin on pages.
inline constexpr int64_t kPartElements = 4096;

// Parts of [0, n) that begin on multiples of `grain`. The kernel's own header for AVX-512 declares
//   void Avx512Part(const Work&, Range);  // needs kAvx512Bf16
template <typename Work>
void RunParts(const Work& work, int64_t n, int64_t grain, const ParallelFor& parallel_for,
              std::type_identity_t<void (*)(const Work&, Range)> portable) {
  parallel_for(n, grain, [&](Range range) {
#if ROOFBENCH_X86
    if (IsaHas(kAvx512Bf16)) return Avx512Part(work, range);
#endif
    portable(work, range);
  });
}

}  // namespace roofbench::kernels
