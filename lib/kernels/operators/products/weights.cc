// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/kernels/simd/avx512.h"

namespace roofbench::kernels {

template <typename T>
void QuantizeInt8(const T* weight, int64_t k, int8_t* quantized, float* scales, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* from = weight + row * k;
    float largest = 0;
    for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(ToFloat(from[i])));
    const float scale = std::max(largest / 127.5F, std::numeric_limits<float>::epsilon());
    scales[row] = scale;
    for (int64_t i = 0; i < k; ++i) {
      const float q = std::nearbyint(ToFloat(from[i]) / scale);
      quantized[row * k + i] = static_cast<int8_t>(std::clamp(q, -128.0F, 127.0F));
    }
  }
}

template <typename T>
void QuantizeInt4(const T* weight, int64_t k, int64_t group, uint8_t* quantized, Bf16* scales_zeros, Range rows) {
  for (int64_t first = rows.begin * k; first < rows.end * k; first += group) {
    float low = std::numeric_limits<float>::infinity();
    float high = -low;
    for (int64_t i = first; i < first + group; ++i) {
      low = std::min(low, ToFloat(weight[i]));
      high = std::max(high, ToFloat(weight[i]));
    }
    // A group of equal weights has an empty range; any scale represents it by its zero.
    const float range = std::max(high - low, 15 * std::numeric_limits<float>::epsilon());
    const Bf16 rounded_scale = ToBf16(range / 15);
    const Bf16 rounded_zero = ToBf16(low + 8 * (range / 15));
    scales_zeros[2 * (first / group)] = rounded_scale;
    scales_zeros[2 * (first / group) + 1] = rounded_zero;
    const float scale = ToFloat(rounded_scale);
    const float bottom = ToFloat(rounded_zero) - 8 * scale;
    for (int64_t i = first; i < first + group; ++i) {
      const float q = std::nearbyint((ToFloat(weight[i]) - bottom) / scale);
      quantized[i] = static_cast<uint8_t>(std::clamp(q, 0.0F, 15.0F));
    }
  }
}

void PackInt4(const uint8_t* quantized, const Bf16* scales_zeros, int64_t n, int64_t k, int64_t group,
              std::byte* packed, Range tiles) {
  const int64_t groups = k / group;
  if (groups == 0) return;
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    std::byte* const to = packed + tile * Int4TileBytes(k, group);
    const int64_t used = std::min(kInt4TileRows, n - tile * kInt4TileRows);
    if (used < kInt4TileRows) std::memset(to, 0, static_cast<std::size_t>(Int4TileBytes(k, group)));
    for (int64_t lane = 0; lane < used; ++lane) {
      const int64_t row = tile * kInt4TileRows + lane;
      for (int64_t g = 0; g < groups; ++g) {
        std::byte* const block = to + g * Int4GroupBytes(group);
        std::memcpy(block + 4 * lane, scales_zeros + 2 * (row * groups + g), 4);
        const uint8_t* const q = quantized + row * k + g * group;
        for (int64_t word = 0; word < group / 8; ++word) {
          std::byte* const bytes = block + 4 * kInt4TileRows * (1 + word) + 4 * lane;
          for (int64_t b = 0; b < 4; ++b) {
            bytes[b] = static_cast<std::byte>(q[8 * word + b] | q[8 * word + 4 + b] << 4);
          }
        }
      }
    }
  }
}

float Dequantize(const Int8Weight& weight, int64_t row, int64_t column) {
  return static_cast<float>(weight.data[row * weight.k + column]) * weight.scales[row];
}

float Dequantize(const Int4Weight& weight, int64_t row, int64_t column) {
  const int64_t lane = row % kInt4TileRows;
  const int64_t in_group = column % weight.group;
  const std::byte* const block = weight.data + row / kInt4TileRows * Int4TileBytes(weight.k, weight.group) +
                                 column / weight.group * Int4GroupBytes(weight.group);
  Bf16 scale_zero[2];
  std::memcpy(scale_zero, block + 4 * lane, sizeof(scale_zero));
  const auto both = static_cast<int>(block[4 * kInt4TileRows * (1 + in_group / 8) + 4 * lane + in_group % 4]);
  const int q = in_group % 8 < 4 ? both & 15 : both >> 4;
  return static_cast<float>(q - 8) * ToFloat(scale_zero[0]) + ToFloat(scale_zero[1]);
}

template void QuantizeInt8(const float*, int64_t, int8_t*, float*, Range);
template void QuantizeInt8(const Bf16*, int64_t, int8_t*, float*, Range);
template void QuantizeInt4(const float*, int64_t, int64_t, uint8_t*, Bf16*, Range);
template void QuantizeInt4(const Bf16*, int64_t, int64_t, uint8_t*, Bf16*, Range);

namespace {

constexpr int64_t kBlockColumns = 32;

template <typename T>
void UnpackColumns(const Int4Weight& weight, int64_t tile, Range columns, T* to, int64_t row_stride,
                   int64_t block_stride) {
  constexpr int64_t kPerWord = 8;
  const std::byte* from = weight.data + tile * Int4TileBytes(weight.k, weight.group) +
                          columns.begin / weight.group * Int4GroupBytes(weight.group);
  for (int64_t g = 0; g < columns.size(); g += weight.group, from += Int4GroupBytes(weight.group)) {
    uint32_t words[kInt4TileRows];
    float scale[kInt4TileRows];
    float zero[kInt4TileRows];
    std::memcpy(words, from, sizeof(words));
    for (int64_t r = 0; r < kInt4TileRows; ++r) {
      scale[r] = ToFloat(Bf16{static_cast<uint16_t>(words[r] & 0xffffU)});
      zero[r] = ToFloat(Bf16{static_cast<uint16_t>(words[r] >> 16)}) - 8 * scale[r];
    }
    for (int64_t j = 0; j < weight.group / kPerWord; ++j) {
      std::memcpy(words, from + (j + 1) * static_cast<int64_t>(sizeof(words)), sizeof(words));
      for (int64_t r = 0; r < kInt4TileRows; ++r) {
        const int64_t column = g + j * kPerWord;
        T* const row = to + r * row_stride + column / kBlockColumns * block_stride + column % kBlockColumns;
        for (int64_t byte = 0; byte < kPerWord / 2; ++byte) {
          const uint32_t pair = words[r] >> (8 * byte);
          row[byte] = Rounded<T>(static_cast<float>(pair & 15U) * scale[r] + zero[r]);
          row[kPerWord / 2 + byte] = Rounded<T>(static_cast<float>((pair >> 4) & 15U) * scale[r] + zero[r]);
        }
      }
    }
  }
}

}  // namespace

#if ROOFBENCH_X86
namespace avx512 {
namespace {

// The values of a row's 16 codes are a table, twice, so that the bit above a code makes no difference: 32 codes of a
// row become as many values at once.
ROOFBENCH_TARGET_AVX512_BF16 inline __m512i ValuesOf(float scale, float zero) {
  const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m256bh values = _mm512_cvtneps_pbh(_mm512_fmadd_ps(codes, _mm512_set1_ps(scale), _mm512_set1_ps(zero)));
  return _mm512_broadcast_i64x4(reinterpret_cast<__m256i>(values));
}

ROOFBENCH_TARGET_AVX512_BF16 void UnpackColumns(const Int4Weight& weight, int64_t tile, Range columns, Bf16* to,
                                                int64_t row_stride, int64_t block_stride) {
  constexpr int64_t kRows = kInt4TileRows;
  // Byte i of the four words of a row: of word i / 4, which holds columns 0 … 3 of 8 in the lower halves of its bytes
  // and 4 … 7 in the upper ones.
  const __m512i word_bytes = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 1, 2, 3, 0, 1, 2, 3));
  const __m512i of_lane = _mm512_setr_epi64(0, 0, 0x4000400040004, 0x4000400040004, 0x8000800080008, 0x8000800080008,
                                            0xc000c000c000c, 0xc000c000c000c);
  const __m512i no_upper = _mm512_set1_epi16(static_cast<int16_t>(0x8000));  // zeros in the upper bytes
  const __m512i bytes = _mm512_or_si512(_mm512_add_epi16(word_bytes, of_lane), no_upper);
  const __m512i halves = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 0, 0, 0, 4, 4, 4, 4));
  const std::byte* from = weight.data + tile * Int4TileBytes(weight.k, weight.group) +
                          columns.begin / weight.group * Int4GroupBytes(weight.group);
  for (int64_t g = 0; g < columns.size(); g += weight.group) {
    const Int4Scales of_group = ScalesOf(_mm512_loadu_si512(from));
    alignas(kLineBytes) float scales[kRows];
    alignas(kLineBytes) float zeros[kRows];
    _mm512_store_ps(scales, of_group.scale);
    _mm512_store_ps(zeros, of_group.zero);
    alignas(kLineBytes) __m512i values[kRows];
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRows; ++r) values[r] = ValuesOf(scales[r], zeros[r]);
    from += kLineBytes;
    for (int64_t block = g; block < g + weight.group; block += kBlockColumns, from += 4 * kLineBytes) {
      for (int64_t word = 0; word < 4; ++word) FetchStream(from + word * kLineBytes);
      const __m512i w0 = _mm512_loadu_si512(from);
      const __m512i w1 = _mm512_loadu_si512(from + kLineBytes);
      const __m512i w2 = _mm512_loadu_si512(from + 2 * kLineBytes);
      const __m512i w3 = _mm512_loadu_si512(from + 3 * kLineBytes);
      const __m512i low01 = _mm512_unpacklo_epi32(w0, w1);
      const __m512i low23 = _mm512_unpacklo_epi32(w2, w3);
      const __m512i high01 = _mm512_unpackhi_epi32(w0, w1);
      const __m512i high23 = _mm512_unpackhi_epi32(w2, w3);
      // Of row 4 · lane + i.
      alignas(kLineBytes)
          __m512i words[4] = {_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
                              _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)};
      const auto* const of_rows = reinterpret_cast<const __m128i*>(words);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kRows; ++r) {
        const __m512i row = _mm512_broadcast_i32x4(_mm_load_si128(of_rows + r % 4 * 4 + r / 4));
        const __m512i codes = _mm512_srlv_epi16(_mm512_shuffle_epi8(row, bytes), halves);
        _mm512_storeu_si512(to + r * row_stride + block / kBlockColumns * block_stride,
                            _mm512_permutexvar_epi16(codes, values[r]));
      }
    }
  }
}

}  // namespace
}  // namespace avx512
#endif

namespace {

using Unpack = void (*)(const Int4Weight& weight, int64_t tile, Range columns, Bf16* to, int64_t row_stride,
                        int64_t block_stride);
constexpr IsaVariant<Unpack> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::UnpackColumns},
#endif
    {0, UnpackColumns<Bf16>},
};

template <typename T, typename Function>
void UnpackTiles(const Int4Weight& weight, Range tiles, T* to, Function unpack) {
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile, to += kInt4TileRows * weight.k) {
    unpack(weight, tile, {0, weight.k}, to, weight.k, kBlockColumns);
  }
}

}  // namespace

void UnpackInt4(const Int4Weight& weight, Range tiles, float* to) {
  UnpackTiles(weight, tiles, to, UnpackColumns<float>);
}

void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to) {
  UnpackTiles(weight, tiles, to, BestVariant<kVariants>());
}

void UnpackInt4Columns(const Int4Weight& weight, int64_t tile, Range columns, Bf16* to, int64_t row_stride,
                       int64_t block_stride) {
  BestVariant<kVariants>()(weight, tile, columns, to, row_stride, block_stride);
}

}  // namespace roofbench::kernels
