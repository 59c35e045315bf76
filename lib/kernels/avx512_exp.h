// The exponential of fp32 vectors, as exact as the result's precision asks for. Empty on other processors.
#pragma once

#include "lib/kernels/avx512_lines.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {

// 2^f on [0, 1) as a polynomial, lowest power first: least relative error by reweighted least squares. For bf16 it is
// 3e-6, far below a rounding; for fp32 2e-9.
template <typename T>
inline constexpr float kExp2[] = {1.0F,
                                  0.6931470036506653F,
                                  0.24022983014583588F,
                                  0.055483341217041016F,
                                  0.009678840637207031F,
                                  0.0012439688434824347F,
                                  0.00021702254889532924F};
template <>
inline constexpr float kExp2<Bf16>[] = {1.0000026226043701F, 0.6930038332939148F, 0.2414427548646927F,
                                        0.05201146379113197F, 0.013534167781472206F};

// exp(x) good enough for a result of type T. -infinity gives 0, NaN stays NaN; x above 88.7 gives infinity.
template <typename T>
ROOFBENCH_TARGET_AVX512 inline __m512 Exp(__m512 x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr int kToFloor = 0x09;  // of vreduceps: x - floor(x), no exceptions
  const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(kLog2E));
  const __m512 f = _mm512_reduce_ps(t, kToFloor);
  constexpr int kDegree = static_cast<int>(sizeof(kExp2<T>) / sizeof(float)) - 1;
  __m512 p = _mm512_set1_ps(kExp2<T>[kDegree]);
#pragma GCC unroll 8
  for (int i = kDegree - 1; i >= 0; --i) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2<T>[i]));
  return _mm512_scalef_ps(p, t);  // p · 2^floor(t)
}

}  // namespace roofbench::kernels::avx512
#endif
