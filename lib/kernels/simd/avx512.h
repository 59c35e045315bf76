// SPDX-License-Identifier: Apache-2.0
// Helpers of the kernels with AVX-512 intrinsics: cache lines of fp32, bf16 and bytes, blocks of four vectors, dot
// products, transposition and exponentials. Empty on other processors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/kernels/simd/floats.h"
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

// Repeats the statement after it for each of n vectors v; ROOFBENCH_EACH for the kVectors of a block.
#define ROOFBENCH_EACH_OF(n) _Pragma("GCC unroll 4") for (int64_t v = 0; v < (n); ++v)
#define ROOFBENCH_EACH ROOFBENCH_EACH_OF(kVectors)

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

// The mask of the first `count` lanes: none below zero, all above their number.
inline __mmask16 Mask16(int64_t count) { return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, 16)) - 1); }
inline __mmask32 Mask32(int64_t count) {
  return static_cast<__mmask32>((uint64_t{1} << std::clamp<int64_t>(count, 0, 32)) - 1);
}
inline __mmask64 Mask64(int64_t count) { return ~uint64_t{0} >> (kLineBytes - std::min(kLineBytes, count)); }  // from 1

// `count` elements of a line, followed by zeros. Whole lines take the constant kPerLine.
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
// Half a line: two consecutive ones are streamed as one.
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

// 16 elements in fp32.
ROOFBENCH_TARGET_AVX512 inline __m512 Load16(const float* from) { return _mm512_loadu_ps(from); }
ROOFBENCH_TARGET_AVX512 inline __m512 Load16(const Bf16* from) {
  return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// As Unpack, from memory, where the conversion can read its operand.
ROOFBENCH_TARGET_AVX512 inline Floats<float> LoadFloats(const float* from) { return {{_mm512_loadu_ps(from)}}; }
ROOFBENCH_TARGET_AVX512 inline Floats<Bf16> LoadFloats(const Bf16* from) { return {{Load16(from), Load16(from + 16)}}; }

ROOFBENCH_TARGET_AVX512 inline __m512i Pack(const Floats<float>& floats) { return _mm512_castps_si512(floats.v[0]); }
ROOFBENCH_TARGET_AVX512_BF16 inline __m512i Pack(const Floats<Bf16>& floats) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(floats.v[1], floats.v[0]));
}

// The permutation that interleaves the two halves of a line of 16-bit elements: 0, 16, 1, 17 …
ROOFBENCH_TARGET_AVX512 inline __m512i Alternate() {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_add_epi16(_mm512_set1_epi32(16 << 16), _mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x10001)));
}

// A line's elements in fp32 in the cheapest order to produce: lower halves of words before upper ones. PackSplit undoes
// it.
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

// Prefetches the lines after `at` where memory is read as a single stream. It must not skip a line: the wait for it
// would take longer than its arithmetic.
ROOFBENCH_TARGET_AVX512 inline void FetchStream(const std::byte* at) {
  PrefetchL2(at + 8192);
  Prefetch(at + 512);
}

// The same for a kernel that is told how to fetch.
struct StreamFetch {
  ROOFBENCH_TARGET_AVX512 void operator()(const std::byte* at) const { FetchStream(at); }
};

// sum + a · b in each lane of two bf16.
ROOFBENCH_TARGET_AVX512_BF16 inline __m512 PlusDot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// Words of an int4 tile (see Int4Weight). Bytes hold columns 0 … 3 in their lower and 4 … 7 in their upper halves.
struct Int4Halves {
  __m512i lower;
  __m512i upper;
};
ROOFBENCH_TARGET_AVX512 inline Int4Halves HalvesOf(__m512i words) {
  const __m512i mask = _mm512_set1_epi8(15);
  return {_mm512_and_si512(words, mask), _mm512_and_si512(_mm512_srli_epi32(words, 4), mask)};
}
// Those of the words at `tile` and, with more tiles, `distance` bytes further on: the lower ones, then the upper.
// `fetch` is told where each lies.
template <std::size_t kTiles, typename Fetch>
ROOFBENCH_TARGET_AVX512 inline void LoadHalves(const std::byte* tile, int64_t distance, Fetch fetch,
                                               __m512i (&halves)[2][kTiles]) {
#pragma GCC unroll 2
  for (std::size_t t = 0; t < kTiles; ++t) {
    const std::byte* const words = tile + static_cast<int64_t>(t) * distance;
    fetch(words);
    const Int4Halves of_tile = HalvesOf(_mm512_loadu_si512(words));
    halves[0][t] = of_tile.lower;
    halves[1][t] = of_tile.upper;
  }
}
struct Int4Scales {
  __m512 scale;
  __m512 zero;  // of q, not of q - 8
};
ROOFBENCH_TARGET_AVX512 inline Int4Scales ScalesOf(__m512i words) {
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  const __m512i upper = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)));
  return {scale, _mm512_fnmadd_ps(_mm512_set1_ps(8), scale, _mm512_castsi512_ps(upper))};
}

// Dot products for kernels that keep many sums. Written as instructions, because GCC 12 copies the sums of its
// intrinsics twice per step, and stores them on the stack where they are many.

// sum += w · x in each lane of four bytes; w is unsigned.
ROOFBENCH_TARGET_AVX512_VNNI inline void AddDot(__m512i& sum, __m512i w, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}

// The same with the four bytes at `x` in every lane.
ROOFBENCH_TARGET_AVX512_VNNI inline void AddDotOfFour(__m512i& sum, __m512i w, const int8_t* x) {
  struct Four {
    int8_t bytes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*reinterpret_cast<const Four*>(x)));
}

// sum += w · x in each lane of two bf16.
ROOFBENCH_TARGET_AVX512_BF16 inline void AddDot(__m512& sum, __m512i w, __m512i x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}

// Converts weights to the unsigned operand of AddDot: w + 128. Sums are then too large by 128 · Σ x.
ROOFBENCH_TARGET_AVX512_VNNI inline __m512i Unsigned(__m512i w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }

// Four bytes in every lane.
ROOFBENCH_TARGET_AVX512 inline __m512i BroadcastFour(const int8_t* from) {
  int32_t bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return _mm512_set1_epi32(bytes);
}

// Sets sums to zero; unrolled, so that they stay in registers.
template <typename Sum, std::size_t kRows, std::size_t kColumns>
ROOFBENCH_TARGET_AVX512 inline void Clear(Sum (&sums)[kRows][kColumns]) {
#pragma GCC unroll 16
  for (auto& of_row : sums) {
#pragma GCC unroll 16
    for (Sum& sum : of_row) sum = Sum{};
  }
}

// Transposes 16 rows of 16 words.
ROOFBENCH_TARGET_AVX512 inline void Transpose(__m512i (&x)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {  // x[4i + j]: column 4l + j of rows 4i to 4i + 3 in 128-bit lane l
    x[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    x[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    x[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    x[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  constexpr int kEven = 0x88;  // lanes 0 and 2 of both operands
  constexpr int kOdd = 0xdd;
#pragma GCC unroll 4
  for (int64_t j = 0; j < 4; ++j) {
    const __m512i even_low = _mm512_shuffle_i32x4(x[j], x[4 + j], kEven);  // of rows 0 to 7
    const __m512i even_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], kEven);
    const __m512i odd_low = _mm512_shuffle_i32x4(x[j], x[4 + j], kOdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], kOdd);
    t[j] = _mm512_shuffle_i32x4(even_low, even_high, kEven);
    t[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, kOdd);
    t[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, kEven);
    t[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, kOdd);
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) x[i] = t[i];
}

// Four vectors at a time: the step of kernels whose arithmetic would otherwise wait for its own results. Each
// instruction is written for all four, because a chain of dependent ones is longer than the processor's window.
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

// Prefetches the lines of a block, `ahead` bytes further on, into the second-level cache: in the first-level cache they
// arrived in time as well, but evicted lines in use (softmax of 8192 columns: a fifth slower).
template <typename T>
ROOFBENCH_TARGET_AVX512 inline void PrefetchBlock(const T* at, int64_t ahead) {
  constexpr int64_t kBytes = kPerBlock * static_cast<int64_t>(sizeof(T));
  const char* const from = reinterpret_cast<const char*>(at) + ahead;
#pragma GCC unroll 4
  for (int64_t line = 0; line < kBytes; line += kLineBytes) PrefetchL2(from + line);
}

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
// For fp32 without a rest: 1.5e-7 with the roundings of fp32.
struct PlainFp32 {
  uint16_t bits;
};
template <>
inline constexpr float kExp2<PlainFp32>[] = {0.9999999403953552F,  0.6931530833244324F,   0.24015362560749054F,
                                             0.05582631379365921F, 0.008989344350993633F, 0.001877575065009296F};
template <>
inline constexpr float kExp2<Bf16>[] = {0.9999252256017009F, 0.6958334974435204F, 0.2260672013218531F,
                                        0.0780245240829076F};

inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kLog2ERest = 1.925963033500e-08F;

// As many vectors at once as the caller has: a block, or less.
#define EACH ROOFBENCH_EACH_OF(kN)

// t = 2^(t + rest) accurate enough for a result of type T, |rest| far below 1 (fp32 only). t of -infinity gives 0, NaN
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

// x = exp(x) accurate enough for a result of type T. -infinity gives 0, NaN stays NaN; x above 88.7 gives infinity,
// +infinity gives NaN.
template <typename T, int kN>
ROOFBENCH_TARGET_AVX512 inline void Exp(__m512 (&x)[kN]) {
  const __m512 log2_e = _mm512_set1_ps(kLog2E);
  if constexpr (sizeof(T) == 2) {
    EACH x[v] = _mm512_mul_ps(x[v], log2_e);
    Exp2<T>(x);
  } else {
    __m512 t[kN];
    __m512 rest[kN];
    // 2^-249 is zero, and an infinity does not have a rounding error to correct. A NaN passes as the second operand.
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
