// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/tile_product.h"

#include <span>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

void StorePortably(const float* sums, int64_t rows, int64_t columns, Bf16* y, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, y += stride) {
    for (int64_t column = 0; column < columns; ++column) y[column] = ToBf16(sums[PanelSum(row, column)]);
  }
}

template <typename Y>
void StoreTurnedPortably(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, Y* y,
                         int64_t stride) {
  for (int64_t column = 0; column < columns; ++column, y += stride) {
    for (int64_t row = 0; row < rows; ++row) {
      const float scale = terms.scales == nullptr ? 1 : terms.scales[row];
      y[row] = Rounded<Y>(sums[PanelSum(row, column)] * scale + (terms.bias == nullptr ? 0 : ToFloat(terms.bias[row])));
    }
  }
}

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512_BF16 void StoreByAvx512(const float* sums, int64_t rows, int64_t columns, Bf16* y,
                                                int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, y += stride) {
    const float* const from = sums + PanelSum(row, 0);
    const avx512::Floats<Bf16> whole = {{_mm512_loadu_ps(from), _mm512_loadu_ps(from + kTileRows * kTileColumns)}};
    avx512::StoreFirst(y, columns, avx512::Pack(whole));
  }
}

// A row of y begins here: 16 of its elements.
ROOFBENCH_TARGET_AVX512_BF16 inline void StoreSums(__m512 sums, __mmask16 mask, float* y) {
  _mm512_mask_storeu_ps(y, mask, sums);
}
ROOFBENCH_TARGET_AVX512_BF16 inline void StoreSums(__m512 sums, __mmask16 mask, Bf16* y) {
  const __m256bh rounded = _mm512_cvtneps_pbh(sums);
  _mm256_mask_storeu_epi16(y, mask, reinterpret_cast<__m256i>(rounded));
}

template <typename Y>
ROOFBENCH_TARGET_AVX512_BF16 void StoreTurnedByAvx512(const float* sums, int64_t rows, int64_t columns,
                                                      const RowTerms& terms, Y* y, int64_t stride) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const __mmask16 mask = avx512::Mask16(rows - row);
    const __m512 scales = terms.scales == nullptr ? _mm512_set1_ps(1) : _mm512_maskz_loadu_ps(mask, terms.scales + row);
    const __m512 bias = terms.bias == nullptr ? _mm512_setzero_ps()
                                              : avx512::Widen(_mm512_castsi512_si256(avx512::LoadFirst(
                                                    terms.bias + row, std::min<int64_t>(kTileRows, rows - row))));
    for (int64_t column = 0; column < columns; column += kTileColumns) {
      __m512i turned[kTileRows];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTileRows; ++i) turned[i] = _mm512_loadu_si512(sums + PanelSum(row + i, column));
      avx512::Transpose(turned);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTileColumns; ++i) {
        if (column + i >= columns) continue;
        StoreSums(_mm512_fmadd_ps(_mm512_castsi512_ps(turned[i]), scales, bias), mask, y + (column + i) * stride + row);
      }
    }
  }
}
#endif

template <typename Y>
using Store = void (*)(const float* sums, int64_t rows, int64_t columns, Y* y, int64_t stride);
constexpr IsaVariant<Store<Bf16>> kStores[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, StoreByAvx512},
#endif
    {0, StorePortably},
};

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512 void StreamByAvx512(const float* sums, int64_t rows, int64_t columns, float* y,
                                            int64_t stride) {
  const bool has_lines = reinterpret_cast<std::uintptr_t>(y) % kLineBytes == 0;
  for (int64_t row = 0; row < rows; ++row, y += stride) {
    for (int64_t column = 0; column < columns; column += kTileColumns) {
      const __m512 line = _mm512_loadu_ps(sums + PanelSum(row, column));
      if (has_lines && stride % kTileColumns == 0 && columns - column >= kTileColumns) {
        _mm512_stream_ps(y + column, line);
      } else {
        _mm512_mask_storeu_ps(y + column, avx512::Mask16(columns - column), line);
      }
    }
  }
  _mm_sfence();  // before another thread is told that y is there
}
#endif

constexpr IsaVariant<Store<float>> kStreams[] = {
#if ROOFBENCH_X86
    {kAvx512, StreamByAvx512},
#endif
    {0, StorePanel<float>},
};

template <typename Y>
using StoreTurned = void (*)(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, Y* y,
                             int64_t stride);
template <typename Y>
constexpr IsaVariant<StoreTurned<Y>> kTurnedStores[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, StoreTurnedByAvx512<Y>},
#endif
    {0, StoreTurnedPortably<Y>},
};

using Transpose = void (*)(const std::byte* from, int64_t row_stride, std::byte* to);

void TransposePortably(const std::byte* from, int64_t row_stride, std::byte* to) {
  constexpr int64_t kWord = kTileRowBytes / kTileColumns;
  for (int64_t i = 0; i < kTileRows; ++i) {
    for (int64_t j = 0; j < kTileColumns; ++j) {
      std::memcpy(to + j * kTileRowBytes + i * kWord, from + i * row_stride + j * kWord, kWord);
    }
  }
}

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512 void TransposeByAvx512(const std::byte* from, int64_t row_stride, std::byte* to) {
  __m512i rows[kTileRows];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTileRows; ++i) rows[i] = _mm512_loadu_si512(from + i * row_stride);
  avx512::Transpose(rows);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTileRows; ++i) _mm512_storeu_si512(to + i * kTileRowBytes, rows[i]);
}
#endif

constexpr IsaVariant<Transpose> kTransposes[] = {
#if ROOFBENCH_X86
    {kAvx512, TransposeByAvx512},
#endif
    {0, TransposePortably},
};

using Interleave = void (*)(const Bf16* from, int64_t row_stride, std::byte* to);

void InterleavePortably(const Bf16* from, int64_t row_stride, std::byte* to) {
  for (int64_t i = 0; i < kTileRows; ++i, from += 2 * row_stride, to += kTileRowBytes) {
    for (int64_t tile = 0; tile < 2; ++tile) {
      const Bf16* const even = from + tile * kTileColumns;
      const Bf16* const odd = even + row_stride;
      std::array<uint32_t, kTileColumns> pairs;
      for (std::size_t j = 0; j < kTileColumns; ++j) pairs[j] = even[j].bits | uint32_t{odd[j].bits} << 16;
      std::memcpy(to + tile * kTileBytes, pairs.data(), kTileRowBytes);
    }
  }
}

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512 void InterleaveByAvx512(const Bf16* from, int64_t row_stride, std::byte* to) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < kTileRows; ++i, from += 2 * row_stride, to += kTileRowBytes) {
#pragma GCC unroll 2
    for (int64_t tile = 0; tile < 2; ++tile) {
      const auto* const even = reinterpret_cast<const __m256i*>(from + tile * kTileColumns);
      const auto* const odd = reinterpret_cast<const __m256i*>(from + row_stride + tile * kTileColumns);
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(even));
      const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(odd)), 16);
      _mm512_storeu_si512(to + tile * kTileBytes, _mm512_or_si512(low, high));
    }
  }
}
#endif

constexpr IsaVariant<Interleave> kInterleaves[] = {
#if ROOFBENCH_X86
    {kAvx512, InterleaveByAvx512},
#endif
    {0, InterleavePortably},
};

// A step of a panel: to[tile][i][j] = from[2 · i][j] and from[2 · i + 1][j] of its 32 columns, zeros beyond `rows` and
// `columns`.
void InterleaveRows(const Bf16* from, int64_t row_stride, int64_t rows, int64_t columns, std::byte* to) {
  std::array<Bf16, static_cast<std::size_t>(kPanelRows * kPanelRows)> whole;
  if (rows < kPanelRows || columns < kPanelRows) {
    whole.fill({});
    for (int64_t row = 0; row < std::min(rows, kPanelRows); ++row) {
      std::copy_n(from + row * row_stride, std::min(columns, kPanelRows), whole.begin() + row * kPanelRows);
    }
    from = whole.data();
    row_stride = kPanelRows;
  }
  BestVariant<kInterleaves>()(from, row_stride, to);
}

void ClearPanel(std::byte* panel, int64_t steps) {
  std::memset(panel, 0, static_cast<std::size_t>(steps * kPanelStepBytes));
}

}  // namespace

void StorePanel(const float* sums, int64_t rows, int64_t columns, Bf16* y, int64_t stride) {
  BestVariant<kStores>()(sums, rows, columns, y, stride);
}

void StreamPanel(const float* sums, int64_t rows, int64_t columns, float* y, int64_t stride) {
  BestVariant<kStreams>()(sums, rows, columns, y, stride);
}

void StoreTurnedPanel(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, Bf16* y,
                      int64_t stride) {
  BestVariant<kTurnedStores<Bf16>>()(sums, rows, columns, terms, y, stride);
}
void StoreTurnedPanel(const float* sums, int64_t rows, int64_t columns, const RowTerms& terms, float* y,
                      int64_t stride) {
  BestVariant<kTurnedStores<float>>()(sums, rows, columns, terms, y, stride);
}
void StoreTurnedPanel(const int32_t* sums, int64_t rows, int64_t columns, int32_t* y, int64_t stride) {
  const Transpose transpose = BestVariant<kTransposes>();
  for (int64_t row = 0; row < rows; row += kTileRows) {
    for (int64_t column = 0; column < columns; column += kTileColumns) {
      std::array<int32_t, static_cast<std::size_t>(kTileRows * kTileColumns)> turned;
      transpose(std::as_bytes(std::span(sums, kPanelSums)).data() + PanelSum(row, column) * int64_t{sizeof(int32_t)},
                kTileRowBytes, std::as_writable_bytes(std::span(turned)).data());
      for (int64_t i = 0; i < std::min<int64_t>(kTileColumns, columns - column); ++i) {
        std::copy_n(&turned[static_cast<std::size_t>(i * kTileRows)], std::min<int64_t>(kTileRows, rows - row),
                    y + (column + i) * stride + row);
      }
    }
  }
}

void PackTileRows(const std::byte* x, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* panels) {
  const int64_t steps = TileSteps(row_bytes);
  for (int64_t row = 0; row < rows; ++row) {
    std::byte* const panel = panels + row / kPanelRows * steps * kPanelStepBytes;
    const bool is_short = rows - row / kPanelRows * kPanelRows < kPanelRows || row_bytes % kTileRowBytes != 0;
    if (row % kPanelRows == 0 && is_short) ClearPanel(panel, steps);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t at = step * kTileRowBytes;
      std::memcpy(panel + step * kPanelStepBytes + row % kPanelRows * kTileRowBytes, x + row * row_stride + at,
                  static_cast<std::size_t>(std::min<int64_t>(kTileRowBytes, row_bytes - at)));
    }
  }
}

void PackTileColumns(const std::byte* w, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* panels,
                     const ParallelFor& parallel) {
  const int64_t steps = TileSteps(row_bytes);
  const Transpose transpose = BestVariant<kTransposes>();
  parallel(CeilDiv(rows, kPanelRows) * 2, [&](Range range) {
    for (int64_t half = range.begin; half < range.end; ++half) {
      const int64_t row = half * kTileColumns;
      std::byte* to = panels + half / 2 * steps * kPanelStepBytes + half % 2 * kTileBytes;
      for (int64_t at = 0; at < row_bytes; at += kTileRowBytes, to += kPanelStepBytes) {
        const std::byte* const from = w + row * row_stride + at;
        const int64_t bytes = std::min<int64_t>(kTileRowBytes, row_bytes - at);
        if (row + kTileColumns <= rows && bytes == kTileRowBytes) {
          transpose(from, row_stride, to);
          continue;
        }
        alignas(kTileRowBytes) std::array<std::byte, kTileBytes> whole = {};
        for (int64_t i = 0; row + i < rows && i < kTileColumns; ++i) {
          std::memcpy(whole.data() + i * kTileRowBytes, from + i * row_stride, static_cast<std::size_t>(bytes));
        }
        transpose(whole.data(), kTileRowBytes, to);
      }
    }
  });
}

void PackFewColumns(const std::byte* w, int64_t rows, int64_t row_stride, int64_t row_bytes, std::byte* packed) {
  const auto parts = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  const int64_t part_bytes = kTileRowBytes / parts;
  std::memset(packed, 0, static_cast<std::size_t>(TileSteps(row_bytes) * parts * kTileRowBytes));
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* const from = w + row * row_stride;
    std::byte* to = packed + row * part_bytes;
    for (int64_t at = 0; at < row_bytes; at += part_bytes, to += kTileRowBytes) {
      std::memcpy(to, from + at, static_cast<std::size_t>(std::min(part_bytes, row_bytes - at)));
    }
  }
}

void PackTurnedTileRows(const Bf16* x, int64_t rows, int64_t columns, int64_t row_stride, std::byte* panels) {
  const Transpose transpose = BestVariant<kTransposes>();
  for (int64_t column = 0; column < columns; column += kPanelRows) {
    for (int64_t row = 0; row < rows; row += kPanelRows, panels += kPanelStepBytes) {
      alignas(kTileRowBytes) std::array<std::byte, kPanelStepBytes> pairs;
      InterleaveRows(x + row * row_stride + column, row_stride, rows - row, columns - column, pairs.data());
      for (int64_t tile = 0; tile < kPanelStepBytes; tile += kTileBytes) {
        transpose(pairs.data() + tile, kTileRowBytes, panels + tile);
      }
    }
  }
}

void PackTurnedTileColumns(const Bf16* w, int64_t rows, int64_t columns, std::byte* panels,
                           const ParallelFor& parallel) {
  const int64_t steps = CeilDiv(rows, kPanelRows);
  const int64_t across = CeilDiv(columns, kPanelRows);
  // Each thread packs the columns that it is likely to multiply; its panels of a step one after the other, which read
  // each row in one piece. Where there are more threads than panels, several share the steps of one.
  const int64_t sharers = CeilDiv(parallel.threads(), std::max<int64_t>(1, across));
  parallel(across * sharers, [&](Range range) {
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t row = step * kPanelRows;
      for (int64_t i = range.begin; i < range.end; ++i) {
        if (step % sharers != i % sharers) continue;
        const int64_t panel = i / sharers;
        const int64_t column = panel * kPanelRows;
        InterleaveRows(w + row * columns + column, columns, rows - row, columns - column,
                       panels + (panel * steps + step) * kPanelStepBytes);
      }
    }
  });
}

const TileLinearKernels* TileLinearKernelsHere() {
#if ROOFBENCH_X86
  if (HasTileRegisters(TileProduct::kBf16)) return &kTileLinearKernels<HardwareTiles>;
  if (HasTiles(TileProduct::kBf16)) return &kTileLinearKernels<VectorTiles>;
#endif
  return nullptr;
}

}  // namespace roofbench::kernels
