// The exponential of fp32 vectors, as exact as the result's precision asks for. Empty on other processors.
#pragma once

#include "lib/kernels/avx512_lines.h"

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

// exp(x) good enough for a result of type T. -infinity gives 0, NaN stays NaN; x above 88.7 gives infinity, an
// infinite one a NaN.
template <typename T>
ROOFBENCH_TARGET_AVX512 inline __m512 Exp(__m512 x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr int kToFloor = 0x09;  // of vreduceps: x - floor(x), no exceptions
  // 2^-250 is zero, and an infinity has no rounding error to be taken back. A NaN passes as the second operand.
  if constexpr (sizeof(T) == 4) x = _mm512_max_ps(_mm512_set1_ps(-173), x);
  const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(kLog2E));
  __m512 f = _mm512_reduce_ps(t, kToFloor);
  if constexpr (sizeof(T) == 4) {
    constexpr float kLog2ERest = 1.925963033500e-08F;
    const __m512 rest = _mm512_fmsub_ps(x, _mm512_set1_ps(kLog2E), t);
    f = _mm512_add_ps(f, _mm512_fmadd_ps(x, _mm512_set1_ps(kLog2ERest), rest));
  }
  constexpr int kDegree = static_cast<int>(sizeof(kExp2<T>) / sizeof(float)) - 1;
  __m512 p = _mm512_set1_ps(kExp2<T>[kDegree]);
#pragma GCC unroll 8
  for (int i = kDegree - 1; i >= 0; --i) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2<T>[i]));
  return _mm512_scalef_ps(p, t);  // p · 2^floor(t)
}

}  // namespace roofbench::kernels::avx512
#endif
