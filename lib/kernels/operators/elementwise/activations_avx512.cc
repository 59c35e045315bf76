// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/activations_avx512.h"

#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "lib/kernels/operators/elementwise/gelu_tail.h"
#include "lib/kernels/simd/avx512_block.h"
#include "lib/kernels/simd/avx512_exp.h"

#define TARGET ROOFBENCH_TARGET_AVX512_BF16
#define EACH ROOFBENCH_EACH

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kAheadBytes = 1024;

// 1 / x, good enough for a result of type T.
template <typename T>
TARGET inline __m512 Reciprocal(__m512 x) {
  return sizeof(T) == 2 ? _mm512_rcp14_ps(x) : _mm512_div_ps(_mm512_set1_ps(1), x);
}

template <typename T>
struct GeluBlock {
  static constexpr int kInputs = 1;
  // max(x, 0) - z · Φ(-z), z = |x|
  TARGET static inline void Apply(Block (&in)[1]) {
    using Tail = GeluTail<T>;
    constexpr int kDegree = static_cast<int>(std::size(Tail::kPolynomial)) - 1;
    constexpr int kLeastMagnitude = 0x0a;  // of vrangeps: the smaller of the magnitudes
    constexpr float kFar = 14.5F;          // Φ(-z) is zero in fp32
    constexpr int kNanForMinusInfinity = 0x30000;
    Block& x = in[0];
    Block z, t, p, e;
    EACH z[v] = _mm512_range_ps(x[v], _mm512_set1_ps(kFar), kLeastMagnitude);
    EACH t[v] = _mm512_fmadd_ps(z[v], _mm512_set1_ps(Tail::kNear), _mm512_set1_ps(1));
    EACH e[v] = _mm512_mul_ps(z[v], _mm512_mul_ps(z[v], _mm512_set1_ps(-0.5F)));
    EACH t[v] = Reciprocal<T>(t[v]);
    Exp<T>(e);
    EACH z[v] = _mm512_mul_ps(z[v], t[v]);
    EACH p[v] = _mm512_set1_ps(Tail::kPolynomial[kDegree]);
#pragma GCC unroll 8
    for (int i = kDegree - 1; i >= 0; --i) {
      EACH p[v] = _mm512_fmadd_ps(p[v], t[v], _mm512_set1_ps(Tail::kPolynomial[i]));
    }
    EACH p[v] = _mm512_mul_ps(p[v], z[v]);
    EACH e[v] = _mm512_fnmadd_ps(p[v], e[v], _mm512_max_ps(_mm512_setzero_ps(), x[v]));
    EACH x[v] = _mm512_fixupimm_ps(e[v], x[v], _mm512_set1_epi32(kNanForMinusInfinity), 0);
  }
};

template <typename T>
struct SiluMulBlock {
  static constexpr int kInputs = 2;
  TARGET static inline void Apply(Block (&in)[2]) {
    Block& gate = in[0];
    Block& up = in[1];
    Block e;
    // Beyond 104 exp is infinite in fp32.
    EACH e[v] = _mm512_min_ps(_mm512_set1_ps(104), _mm512_sub_ps(_mm512_setzero_ps(), gate[v]));
    Exp<T>(e);
    EACH e[v] = Reciprocal<T>(_mm512_add_ps(e[v], _mm512_set1_ps(1)));
    EACH gate[v] = _mm512_mul_ps(_mm512_mul_ps(gate[v], e[v]), up[v]);
  }
};

// From a block of type X.
template <bool kStream, typename X, typename Y>
TARGET inline void StoreResult(Y* to, const Block& from) {
  if constexpr (sizeof(X) == sizeof(Y)) {
    StoreBlock<kStream>(to, from);
  } else {
    StoreRounded<kStream>(to, from);
  }
}

template <typename Kernel, bool kStream, typename X, typename Y>
TARGET void Blocks(const X* const (&from)[Kernel::kInputs], Y* y, Range range) {
  Block in[Kernel::kInputs];
  int64_t i = range.begin;
  for (; i + kPerBlock <= range.end; i += kPerBlock) {
    for (int k = 0; k < Kernel::kInputs; ++k) {
      PrefetchBlock(from[k] + i, kAheadBytes);
      LoadBlock(from[k] + i, in[k]);
    }
    Kernel::Apply(in);
    StoreResult<kStream, X>(y + i, in[0]);
  }
  if (const int64_t count = range.end - i; count > 0) {
    X padded[kPerBlock] = {};
    Y results[kPerBlock];
    for (int k = 0; k < Kernel::kInputs; ++k) {
      std::copy_n(from[k] + i, count, padded);
      LoadBlock(padded, in[k]);
    }
    Kernel::Apply(in);
    StoreResult<false, X>(results, in[0]);
    std::copy_n(results, count, y + i);
  }
  if constexpr (kStream) _mm_sfence();
}

// Shares of a streamed result begin with a line: they do so in the whole.
template <typename Kernel, typename X, typename Y>
void Dispatch(const X* const (&from)[Kernel::kInputs], Y* y, int64_t n, Range range) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Y));
  if (n * kBytes >= kStreamBytes && IsLineAligned(y + range.begin)) {
    Blocks<Kernel, true>(from, y, range);
  } else {
    Blocks<Kernel, false>(from, y, range);
  }
}

template <typename T>
void Share(const Gelu<T>& work, Range range) {
  Dispatch<GeluBlock<T>>({work.x}, work.y, work.n, range);
}

template <typename X, typename Y>
void Share(const SiluMul<X, Y>& work, Range range) {
  Dispatch<SiluMulBlock<Y>>({work.gate, work.up}, work.y, work.n, range);
}

}  // namespace
}  // namespace roofbench::kernels::avx512

namespace roofbench::kernels {

void Avx512Share(const Gelu<float>& work, Range range) { avx512::Share(work, range); }
void Avx512Share(const Gelu<Bf16>& work, Range range) { avx512::Share(work, range); }
void Avx512Share(const SiluMul<float>& work, Range range) { avx512::Share(work, range); }
void Avx512Share(const SiluMul<Bf16>& work, Range range) { avx512::Share(work, range); }
void Avx512Share(const SiluMul<float, Bf16>& work, Range range) { avx512::Share(work, range); }

}  // namespace roofbench::kernels

#endif
