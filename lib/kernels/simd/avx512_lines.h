// SPDX-License-Identifier: Apache-2.0
// Cache lines of fp32 and bf16 as AVX-512 vectors: what the kernels with intrinsics share. Empty on other processors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/streaming.h"

#if ROOFBENCH_X86
#if defined(__GNUC__) && !defined(__clang__)
// GCC before 13 takes the intrinsics' deliberately undefined operands for mistakes (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

namespace roofbench::kernels::avx512 {

template <typename T>
inline constexpr int64_t kPerLine = kLineBytes / static_cast<int64_t>(sizeof(T));

// A line's elements in fp32: 16 of them are one vector, 32 are two.
template <typename T>
struct Floats;
template <>
struct Floats<float> {
  __m512 v[1];
};
template <>
struct Floats<Bf16> {
  __m512 v[2];
};

inline __mmask16 Mask16(int64_t count) { return static_cast<__mmask16>((1U << count) - 1); }  // count < 16
inline __mmask32 Mask32(int64_t count) { return static_cast<__mmask32>((1ULL << count) - 1); }

// `count` elements of a line, zeros behind them. Whole lines take the constant kPerLine.
ROOFBENCH_TARGET_AVX512 inline __m512i LoadLine(const float* from) { return _mm512_loadu_si512(from); }
ROOFBENCH_TARGET_AVX512 inline __m512i LoadLine(const Bf16* from) { return _mm512_loadu_si512(from); }
ROOFBENCH_TARGET_AVX512 inline __m512i LoadFirst(const float* from, int64_t count) {
  return _mm512_maskz_loadu_epi32(Mask16(count), from);
}
ROOFBENCH_TARGET_AVX512 inline __m512i LoadFirst(const Bf16* from, int64_t count) {
  return _mm512_maskz_loadu_epi16(Mask32(count), from);
}
ROOFBENCH_TARGET_AVX512 inline void StoreFirst(float* to, int64_t count, __m512i line) {
  _mm512_mask_storeu_epi32(to, Mask16(count), line);
}
ROOFBENCH_TARGET_AVX512 inline void StoreFirst(Bf16* to, int64_t count, __m512i line) {
  _mm512_mask_storeu_epi16(to, Mask32(count), line);
}
template <bool kStream>
ROOFBENCH_TARGET_AVX512 inline void StoreLine(void* to, __m512i line) {
  if constexpr (kStream) {
    _mm512_stream_si512(static_cast<__m512i*>(to), line);
  } else {
    _mm512_storeu_si512(to, line);
  }
}
// Half a line: two of them, one after the other, are streamed as one.
template <bool kStream>
ROOFBENCH_TARGET_AVX512 inline void StoreLine(void* to, __m256i half) {
  if constexpr (kStream) {
    _mm256_stream_si256(static_cast<__m256i*>(to), half);
  } else {
    _mm256_storeu_si256(static_cast<__m256i*>(to), half);
  }
}

ROOFBENCH_TARGET_AVX512 inline __m512 Widen(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

ROOFBENCH_TARGET_AVX512 inline Floats<float> Unpack(const float*, __m512i line) {
  return {{_mm512_castsi512_ps(line)}};
}
ROOFBENCH_TARGET_AVX512 inline Floats<Bf16> Unpack(const Bf16*, __m512i line) {
  return {{Widen(_mm512_castsi512_si256(line)), Widen(_mm512_extracti64x4_epi64(line, 1))}};
}

// The same from memory, where the conversion can take its operand from.
ROOFBENCH_TARGET_AVX512 inline Floats<float> LoadFloats(const float* from) { return {{_mm512_loadu_ps(from)}}; }
ROOFBENCH_TARGET_AVX512 inline Floats<Bf16> LoadFloats(const Bf16* from) {
  return {{Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))),
           Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 16)))}};
}

ROOFBENCH_TARGET_AVX512 inline __m512i Pack(const Floats<float>& floats) { return _mm512_castps_si512(floats.v[0]); }
ROOFBENCH_TARGET_AVX512_BF16 inline __m512i Pack(const Floats<Bf16>& floats) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(floats.v[1], floats.v[0]));
}

// Of a line of 16-bit elements in two halves, one from each by turns: 0, 16, 1, 17 …
ROOFBENCH_TARGET_AVX512 inline __m512i Alternate() {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_add_epi16(_mm512_set1_epi32(16 << 16), _mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x10001)));
}

// A line's elements in fp32 in an order that takes the least to make: lower halves of words before upper ones.
// PackSplit undoes it.
ROOFBENCH_TARGET_AVX512 inline Floats<float> LoadSplit(const float* from) { return LoadFloats(from); }
ROOFBENCH_TARGET_AVX512 inline Floats<Bf16> LoadSplit(const Bf16* from) {
  const __m512i line = LoadLine(from);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(line, 16)), _mm512_castsi512_ps(_mm512_and_si512(line, upper))}};
}
ROOFBENCH_TARGET_AVX512 inline __m512i PackSplit(const Floats<float>& floats) { return Pack(floats); }
ROOFBENCH_TARGET_AVX512_BF16 inline __m512i PackSplit(const Floats<Bf16>& floats) {
  return _mm512_permutexvar_epi16(Alternate(), Pack(floats));
}

ROOFBENCH_TARGET_AVX512 inline void Prefetch(const void* at) {
  _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T0);
}

ROOFBENCH_TARGET_AVX512 inline void PrefetchL2(const void* at) {
  _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T1);
}

// What comes behind `at` where memory is read as a single stream. Not a line may be left out: the wait for it would
// take longer than its arithmetic.
ROOFBENCH_TARGET_AVX512 inline void FetchStream(const std::byte* at) {
  PrefetchL2(at + 8192);
  Prefetch(at + 512);
}

}  // namespace roofbench::kernels::avx512
#endif
