// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/unpack_int4_avx512.h"

#include "lib/kernels/simd/avx512_lines.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

// Lane r of v[c] becomes lane c of v[r].
ROOFBENCH_TARGET_AVX512 inline void Transpose16(__m512i (&v)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
  // Then 128-bit lane l of v[4i + r] holds lanes 4i … 4i + 3 of row 4l + r.
#pragma GCC unroll 4
  for (int64_t i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < 4; ++r) {
    const __m512i first_rows = _mm512_shuffle_i32x4(v[r], v[4 + r], 0x44);
    const __m512i last_rows = _mm512_shuffle_i32x4(v[r], v[4 + r], 0xee);
    const __m512i first_rows_too = _mm512_shuffle_i32x4(v[8 + r], v[12 + r], 0x44);
    const __m512i last_rows_too = _mm512_shuffle_i32x4(v[8 + r], v[12 + r], 0xee);
    v[r] = _mm512_shuffle_i32x4(first_rows, first_rows_too, 0x88);
    v[4 + r] = _mm512_shuffle_i32x4(first_rows, first_rows_too, 0xdd);
    v[8 + r] = _mm512_shuffle_i32x4(last_rows, last_rows_too, 0x88);
    v[12 + r] = _mm512_shuffle_i32x4(last_rows, last_rows_too, 0xdd);
  }
}

}  // namespace

// A lane is a row. Two columns side by side are a 32-bit lane, so that 32 columns of 16 rows are turned in registers
// and leave as whole lines.
ROOFBENCH_TARGET_AVX512_BF16 void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to) {
  constexpr int64_t kWords = 4;  // eight columns each: those of a line
  constexpr int64_t kColumns = 8 * kWords;
  const __m512i low = _mm512_set1_epi32(15);
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile, to += kInt4TileRows * weight.k) {
    const std::byte* from = weight.data + tile * Int4TileBytes(weight.k, weight.group);
    for (int64_t g = 0; g < weight.k; g += weight.group) {
      const __m512i scales = _mm512_loadu_si512(from);
      const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(scales, 16));
      const __m512 middle = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_srli_epi32(scales, 16), 16));
      const __m512 zero = _mm512_fnmadd_ps(_mm512_set1_ps(8), scale, middle);
      from += kLineBytes;
      for (int64_t columns = g; columns < g + weight.group; columns += kColumns) {
        __m512i v[kInt4TileRows];
#pragma GCC unroll 4
        for (int64_t word = 0; word < kWords; ++word, from += kLineBytes) {
          const __m512i words = _mm512_loadu_si512(from);
          // Bytes hold columns 0 … 3 in their lower and 4 … 7 in their upper halves.
#pragma GCC unroll 4
          for (int pair = 0; pair < 4; ++pair) {
            const auto shift = static_cast<unsigned>(16 * (pair % 2) + 4 * (pair / 2));
            const __m512i one = _mm512_and_si512(_mm512_srli_epi32(words, shift), low);
            const __m512i next = _mm512_and_si512(_mm512_srli_epi32(words, shift + 8), low);
            v[4 * word + pair] = PackSplit(Floats<Bf16>{{_mm512_fmadd_ps(_mm512_cvtepi32_ps(one), scale, zero),
                                                         _mm512_fmadd_ps(_mm512_cvtepi32_ps(next), scale, zero)}});
          }
        }
        Transpose16(v);
#pragma GCC unroll 16
        for (int64_t r = 0; r < kInt4TileRows; ++r) _mm512_storeu_si512(to + r * weight.k + columns, v[r]);
      }
    }
  }
}

}  // namespace roofbench::kernels::avx512
#endif
