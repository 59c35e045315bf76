// SPDX-License-Identifier: Apache-2.0
// Four vectors at a time: the step of kernels whose arithmetic would otherwise wait for itself. Each instruction is
// written for all four, because a chain of dependent ones is longer than what the processor looks ahead. Empty on other
// processors.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/avx512_lines.h"

#if ROOFBENCH_X86

// The statement behind it for each of n vectors v, and of a block's.
#define ROOFBENCH_EACH_OF(n) _Pragma("GCC unroll 4") for (int64_t v = 0; v < (n); ++v)
#define ROOFBENCH_EACH ROOFBENCH_EACH_OF(kVectors)

namespace roofbench::kernels::avx512 {

inline constexpr int64_t kVectors = 4;
inline constexpr int64_t kPerBlock = kVectors * 16;  // elements

using Block = __m512[kVectors];

// Elements in fp32. Those of bf16 are in the order of LoadSplit, which StoreBlock undoes.
ROOFBENCH_TARGET_AVX512 inline void LoadBlock(const float* from, Block& to) {
  ROOFBENCH_EACH to[v] = _mm512_loadu_ps(from + v * 16);
}
ROOFBENCH_TARGET_AVX512 inline void LoadBlock(const Bf16* from, Block& to) {
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    const Floats<Bf16> line = LoadSplit(from + half * 32);
    to[2 * half] = line.v[0];
    to[2 * half + 1] = line.v[1];
  }
}

template <bool kStream>
ROOFBENCH_TARGET_AVX512 inline void StoreBlock(float* to, const Block& from) {
  ROOFBENCH_EACH StoreLine<kStream>(to + v * 16, _mm512_castps_si512(from[v]));
}
template <bool kStream>
ROOFBENCH_TARGET_AVX512_BF16 inline void StoreBlock(Bf16* to, const Block& from) {
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    StoreLine<kStream>(to + half * 32, PackSplit(Floats<Bf16>{{from[2 * half], from[2 * half + 1]}}));
  }
}

// As bf16, from a block of fp32 in memory's order.
template <bool kStream>
ROOFBENCH_TARGET_AVX512_BF16 inline void StoreRounded(Bf16* to, const Block& from) {
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    StoreLine<kStream>(to + half * 32, Pack(Floats<Bf16>{{from[2 * half], from[2 * half + 1]}}));
  }
}

// The lines of a block, `ahead` bytes further on, into the second cache: into the first they came in time as well, but
// drove out what was in use (softmax of 8192 columns: a fifth slower).
template <typename T>
ROOFBENCH_TARGET_AVX512 inline void PrefetchBlock(const T* at, int64_t ahead) {
  constexpr int64_t kBytes = kPerBlock * static_cast<int64_t>(sizeof(T));
  const char* const from = reinterpret_cast<const char*>(at) + ahead;
#pragma GCC unroll 4
  for (int64_t line = 0; line < kBytes; line += kLineBytes) PrefetchL2(from + line);
}

}  // namespace roofbench::kernels::avx512
#endif
