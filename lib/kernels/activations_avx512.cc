#include "lib/kernels/activations_avx512.h"

#include "lib/kernels/isa.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "lib/kernels/avx512_exp.h"
#include "lib/kernels/avx512_lines.h"
#include "lib/kernels/gelu_tail.h"

// In bf16 these are bound by arithmetic: each step is written for four vectors, whose chains of dependent instructions
// then run side by side (one after another they are longer than what the processor looks ahead).
#define TARGET ROOFBENCH_TARGET_AVX512_BF16
#define EACH _Pragma("GCC unroll 4") for (int v = 0; v < kVectors; ++v)

namespace roofbench::kernels::avx512 {
namespace {

constexpr int kVectors = 4;
constexpr int64_t kBlock = kVectors * 16;  // elements
constexpr int64_t kAheadBytes = 1024;

using Block = __m512[kVectors];

TARGET inline __m512 LoadVector(const float* from) { return _mm512_loadu_ps(from); }
TARGET inline __m512 LoadVector(const Bf16* from) {
  return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

template <typename T>
TARGET inline void LoadBlock(const T* from, Block& to) {
  EACH to[v] = LoadVector(from + v * 16);
}

template <bool kStream>
TARGET inline void StoreBlock(float* to, const Block& from) {
  EACH StoreLine<kStream>(to + v * 16, _mm512_castps_si512(from[v]));
}
template <bool kStream>
TARGET inline void StoreBlock(Bf16* to, const Block& from) {
  StoreLine<kStream>(to, Pack(Floats<Bf16>{{from[0], from[1]}}));
  StoreLine<kStream>(to + 32, Pack(Floats<Bf16>{{from[2], from[3]}}));
}

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
    EACH e[v] = Exp<T>(e[v]);
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
    EACH e[v] = Exp<T>(e[v]);
    EACH e[v] = Reciprocal<T>(_mm512_add_ps(e[v], _mm512_set1_ps(1)));
    EACH gate[v] = _mm512_mul_ps(_mm512_mul_ps(gate[v], e[v]), up[v]);
  }
};

template <typename Kernel, bool kStream, typename T>
TARGET void Blocks(const T* const (&from)[Kernel::kInputs], T* y, Range range) {
  Block in[Kernel::kInputs];
  int64_t i = range.begin;
  for (; i + kBlock <= range.end; i += kBlock) {
    for (int k = 0; k < Kernel::kInputs; ++k) {
      constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
      for (int64_t at = 0; at < kBlock * kBytes; at += kLineBytes) {
        Prefetch(reinterpret_cast<const char*>(from[k] + i) + kAheadBytes + at);
      }
      LoadBlock(from[k] + i, in[k]);
    }
    Kernel::Apply(in);
    StoreBlock<kStream>(y + i, in[0]);
  }
  if (const int64_t count = range.end - i; count > 0) {
    T padded[kBlock] = {};
    for (int k = 0; k < Kernel::kInputs; ++k) {
      std::copy_n(from[k] + i, count, padded);
      LoadBlock(padded, in[k]);
    }
    Kernel::Apply(in);
    StoreBlock<false>(padded, in[0]);
    std::copy_n(padded, count, y + i);
  }
  if constexpr (kStream) _mm_sfence();
}

// Parts of a streamed result begin with a line: they do so in the whole.
template <typename Kernel, typename T>
void Dispatch(const T* const (&from)[Kernel::kInputs], T* y, int64_t n, Range range) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  if (n * kBytes >= kStreamBytes && IsLineAligned(y + range.begin)) {
    Blocks<Kernel, true>(from, y, range);
  } else {
    Blocks<Kernel, false>(from, y, range);
  }
}

template <typename T>
void Part(const Gelu<T>& work, Range range) {
  Dispatch<GeluBlock<T>>({work.x}, work.y, work.n, range);
}

template <typename T>
void Part(const SiluMul<T>& work, Range range) {
  Dispatch<SiluMulBlock<T>>({work.gate, work.up}, work.y, work.n, range);
}

}  // namespace

void GeluPart(const Gelu<float>& work, Range range) { Part(work, range); }
void GeluPart(const Gelu<Bf16>& work, Range range) { Part(work, range); }
void SiluMulPart(const SiluMul<float>& work, Range range) { Part(work, range); }
void SiluMulPart(const SiluMul<Bf16>& work, Range range) { Part(work, range); }

}  // namespace roofbench::kernels::avx512

#endif
