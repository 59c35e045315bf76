// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/stored_rows.h"

#include <cstddef>
#include <cstdint>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kColumns = kTileRowBytes / int64_t{sizeof(Bf16)};  // of a step
constexpr int64_t kStep = kPanelStepBytes / int64_t{sizeof(Bf16)};   // in elements, as are all distances here

// The elements of a row in steps, and zeros up to the end of the last one.
using Widen = void (*)(const int8_t* from, int64_t count, Bf16* to);

void WidenPortably(const int8_t* from, int64_t count, Bf16* to) {
  for (int64_t i = 0; i < RoundUp(count, kColumns); ++i) {
    to[i / kColumns * kStep + i % kColumns] = i < count ? ToBf16(from[i]) : Bf16{};
  }
}

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512 inline __m512 FloatsOf(__m128i bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
ROOFBENCH_TARGET_AVX512_BF16 void WidenByAvx512(const int8_t* from, int64_t count, Bf16* to) {
  for (int64_t i = 0; i < count; i += kColumns, to += kStep) {
    // The next slab.
    if (i % kLineBytes == 0) avx512::PrefetchL2(from + count + i);
    const __m256i bytes = _mm256_maskz_loadu_epi8(avx512::Mask32(count - i), from + i);
    const avx512::Floats<Bf16> whole = {
        {FloatsOf(_mm256_castsi256_si128(bytes)), FloatsOf(_mm256_extracti128_si256(bytes, 1))}};
    _mm512_storeu_si512(to, avx512::Pack(whole));
  }
}
#endif

constexpr IsaVariant<Widen> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, WidenByAvx512},
#endif
    {0, WidenPortably},
};

// Of a slab: [step][tile][row][kColumns].
Bf16* RowOf(std::byte* slab, int64_t row) { return reinterpret_cast<Bf16*>(slab) + row * kColumns; }

}  // namespace

void StoredInt8::Pack(Range rows, Range columns, std::byte* slab) const {
  const Widen widen = BestVariant<kVariants>();
  for (int64_t row = 0; row < rows.size(); ++row) {
    widen(weight_.data + (rows.begin + row) * weight_.k + columns.begin, columns.size(), RowOf(slab, row));
  }
}

void StoredInt4::Pack(Range rows, Range columns, std::byte* slab) const {
  for (int64_t row = 0; row < rows.size(); row += kInt4TileRows) {
    UnpackInt4Columns(weight_, (rows.begin + row) / kInt4TileRows, columns, RowOf(slab, row), kColumns, kStep);
  }
}

}  // namespace roofbench::kernels
