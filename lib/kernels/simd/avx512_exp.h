// SPDX-License-Identifier: Apache-2.0
// The exponential of fp32 vectors, as exact as the result's precision asks for. Empty on other processors.
#pragma once

#include "lib/kernels/simd/avx512_block.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {

// 2^f on [0, 1) as a polynomial, lowest power first: least relative error by reweighted least squares. For bf16 it is
// 8e-5, a fiftieth of a rounding; for fp32 2e-9.
template <typename T>
inline constexpr float kExp2[] = {1.0F,
                                  0.6931470036506653F,
                                  0.24022983014583588F,
                                  0.055483341217041016F,
                                  0.009678840637207031F,
                                  0.0012439688434824347F,
                                  0.00021702254889532924F};
template <>
inline constexpr float kExp2<Bf16>[] = {0.9999252256017009F, 0.6958334974435204F, 0.2260672013218531F,
                                        0.0780245240829076F};

inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kLog2ERest = 1.925963033500e-08F;

// As many vectors at once as the caller has: a block, or less.
#define EACH ROOFBENCH_EACH_OF(kN)

// t = 2^(t + rest) good enough for a result of type T, |rest| far below 1 (fp32 only). t of -infinity gives 0, NaN
// stays NaN, t above 128 gives infinity.
template <typename T, int kN>
ROOFBENCH_TARGET_AVX512 inline void Exp2(__m512 (&t)[kN], const __m512 (*rest)[kN] = nullptr) {
  constexpr int kToFloor = 0x09;  // of vreduceps: t - floor(t), no exceptions
  constexpr int kDegree = static_cast<int>(sizeof(kExp2<T>) / sizeof(float)) - 1;
  __m512 f[kN];
  __m512 p[kN];
  EACH f[v] = _mm512_reduce_ps(t[v], kToFloor);
  if constexpr (sizeof(T) == 4) EACH f[v] = _mm512_add_ps(f[v], (*rest)[v]);
  EACH p[v] = _mm512_set1_ps(kExp2<T>[kDegree]);
#pragma GCC unroll 8
  for (int i = kDegree - 1; i >= 0; --i) {
    EACH p[v] = _mm512_fmadd_ps(p[v], f[v], _mm512_set1_ps(kExp2<T>[i]));
  }
  EACH t[v] = _mm512_scalef_ps(p[v], t[v]);  // p · 2^floor(t)
}

// x = exp(x) good enough for a result of type T. -infinity gives 0, NaN stays NaN; x above 88.7 gives infinity, an
// infinite one a NaN.
template <typename T, int kN>
ROOFBENCH_TARGET_AVX512 inline void Exp(__m512 (&x)[kN]) {
  const __m512 log2_e = _mm512_set1_ps(kLog2E);
  if constexpr (sizeof(T) == 2) {
    EACH x[v] = _mm512_mul_ps(x[v], log2_e);
    Exp2<T>(x);
  } else {
    __m512 t[kN];
    __m512 rest[kN];
    // 2^-249 is zero, and an infinity has no rounding error to be taken back. A NaN passes as the second operand.
    EACH x[v] = _mm512_max_ps(_mm512_set1_ps(-173), x[v]);
    EACH t[v] = _mm512_mul_ps(x[v], log2_e);
    EACH rest[v] = _mm512_fmsub_ps(x[v], log2_e, t[v]);
    EACH rest[v] = _mm512_fmadd_ps(x[v], _mm512_set1_ps(kLog2ERest), rest[v]);
    Exp2<T>(t, &rest);
    EACH x[v] = t[v];
  }
}

#undef EACH

}  // namespace roofbench::kernels::avx512
#endif
