// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/kernels/simd/tile.h"

#if ROOFBENCH_X86
#include "lib/kernels/simd/avx512.h"

namespace roofbench::kernels {
namespace {

// Rows of x at a time, each with two vectors of sums: a load of y for eight products, and the latency of a product
// hides behind 15 others.
constexpr int64_t kRows = 8;
// Prefetch distance of rows that lie in memory: as that of a product of few vectors.
constexpr int64_t kStepsAhead = 32;

constexpr bool IsOfInts(TileProduct product) {
  return product == TileProduct::kInt8 || product == TileProduct::kInt8ByUint8;
}

// sums += y · x in each lane. Instructions, because GCC 12 copies the sums of its intrinsics.
template <TileProduct kProduct>
ROOFBENCH_TARGET_AVX512 inline void AddDot(__m512i& sums, __m512i y, __m512i x) {
  if constexpr (IsOfInts(kProduct)) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(y), "v"(x));
  } else if constexpr (kProduct == TileProduct::kBf16) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(y), "v"(x));
  } else {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sums) : "v"(y), "v"(x));
  }
}

template <bool kOfInts>
ROOFBENCH_TARGET_AVX512 inline __m512i Plus(__m512i a, __m512i b) {
  if constexpr (kOfInts) return _mm512_add_epi32(a, b);
  return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

// What is prefetched in each step: a line of each of kRows rows, after `here` steps `to_next` bytes further on.
struct Fetch {
  const std::byte* rows;  // nullptr: nothing
  int64_t row;
  int64_t here;
  int64_t to_next;
};

// The next kBytes bytes of a row, repeated.
template <int kBytes>
ROOFBENCH_TARGET_AVX512 inline __m512i Repeated(const std::byte* from) {
  if constexpr (kBytes == 4) {
    return avx512::BroadcastFour(reinterpret_cast<const int8_t*>(from));
  } else if constexpr (kBytes == 8) {
    int64_t bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    return _mm512_set1_epi64(bytes);
  } else if constexpr (kBytes == 16) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (kBytes == 32) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  } else {
    return _mm512_loadu_si512(from);
  }
}

// The sums of each 16 / kColumns adjacent lanes, in the first kColumns lanes; zeros in the others.
template <bool kOfInts, int kColumns>
ROOFBENCH_TARGET_AVX512 inline __m512i SumsOfColumns(__m512i sums) {
  constexpr int kSwapHalves = 0x4e;  // also of pairs
  constexpr int kSwapNeighbours = 0xb1;
  if constexpr (kColumns == 1) sums = Plus<kOfInts>(sums, _mm512_shuffle_i64x2(sums, sums, kSwapHalves));
  if constexpr (kColumns <= 2) sums = Plus<kOfInts>(sums, _mm512_shuffle_i64x2(sums, sums, kSwapNeighbours));
  if constexpr (kColumns <= 4) sums = Plus<kOfInts>(sums, _mm512_shuffle_epi32(sums, _MM_PERM_BADC));
  if constexpr (kColumns <= 8) sums = Plus<kOfInts>(sums, _mm512_shuffle_epi32(sums, _MM_PERM_CDAB));
  constexpr __mmask16 kFirsts[] = {0x0001, 0x0101, 0x1111, 0x5555, 0xffff};
  return _mm512_maskz_compress_epi32(kFirsts[std::countr_zero(static_cast<unsigned>(kColumns))], sums);
}

// What MultiplyTiles computes for kRows rows of x. With fewer than 16 columns, the lanes of a vector are kColumns times
// some adjacent groups of one of them.
template <TileProduct kProduct, int kOfY, int kColumns>
ROOFBENCH_TARGET_AVX512 void MultiplyRows(const std::byte* x, const TileOperand& of_x, const TileOperand& of_y,
                                          int64_t steps, bool add, std::byte* to, const TileSums& of_sums,
                                          const Fetch& fetch) {
  constexpr int kChains = 2 / kOfY;  // sums of a row with a vector of columns
  constexpr int kBytes = kTileRowBytes / kColumns;
  constexpr bool kSigned = kProduct == TileProduct::kInt8;
  __m512i sums[kRows][2];
  // The instruction takes unsigned bytes of y: 128 more, so that a sum is too large by 128 times that of a row.
  const __m512i offset = _mm512_set1_epi8(-128);
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i row_sums[kRows];
  const std::byte* rows[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) sums[r][c] = _mm512_setzero_si512();
    row_sums[r] = _mm512_setzero_si512();
    rows[r] = x + r * of_x.row;
  }
  const std::byte* y = of_y.data;
  for (int64_t step = 0; step < steps; ++step, y += of_y.step) {
    if (fetch.rows != nullptr) {
      const std::byte* const at = fetch.rows + step * kTileRowBytes + (step < fetch.here ? 0 : fetch.to_next);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) avx512::PrefetchL2(at + r * fetch.row);
    }
    if constexpr (kSigned) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        asm("vpdpbusd %2, %1, %0" : "+v"(row_sums[r]) : "v"(ones), "v"(_mm512_loadu_si512(rows[r])));
      }
    }
#pragma GCC unroll 16
    for (int64_t part = 0; part < kColumns; ++part) {
      __m512i columns[kOfY];
#pragma GCC unroll 2
      for (int c = 0; c < kOfY; ++c) {
        columns[c] = _mm512_loadu_si512(y + c * of_y.second + part * kTileRowBytes);
        if constexpr (kSigned) columns[c] = _mm512_xor_si512(columns[c], offset);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512i of_row = Repeated<kBytes>(rows[r] + part * kBytes);
#pragma GCC unroll 2
        for (int c = 0; c < kOfY; ++c) {
          AddDot<kProduct>(sums[r][kOfY == 2 ? c : part % kChains], columns[c], of_row);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) rows[r] += of_x.step;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kOfY == 1) sums[r][0] = Plus<IsOfInts(kProduct)>(sums[r][0], sums[r][1]);
    if constexpr (kSigned) row_sums[r] = _mm512_set1_epi32(-128 * _mm512_reduce_add_epi32(row_sums[r]));
#pragma GCC unroll 2
    for (int c = 0; c < kOfY; ++c) {
      std::byte* const at = to + r * of_sums.row + c * of_sums.second_of_y;
      __m512i sum = SumsOfColumns<IsOfInts(kProduct), kColumns>(sums[r][c]);
      if constexpr (kSigned) sum = _mm512_add_epi32(sum, row_sums[r]);
      if (add) sum = Plus<IsOfInts(kProduct)>(_mm512_loadu_si512(at), sum);
      _mm512_storeu_si512(at, sum);
    }
  }
}

}  // namespace

template <TileProduct kProduct, int kOfX, int kOfY>
void MultiplyByVectors(const TileOperand& x, const TileOperand& y, int64_t steps, bool add, const TileSums& sums) {
  auto multiply = MultiplyRows<kProduct, kOfY, kTileColumns>;
  if constexpr (kOfY == 1) {
    // By the columns that a step holds.
    constexpr decltype(multiply) kByColumns[] = {MultiplyRows<kProduct, 1, 1>, MultiplyRows<kProduct, 1, 2>,
                                                 MultiplyRows<kProduct, 1, 4>, MultiplyRows<kProduct, 1, 8>};
    const int64_t columns = y.step / kTileRowBytes;
    if (columns <= kFewTileColumns) multiply = kByColumns[std::countr_zero(static_cast<uint64_t>(columns))];
  }
  const int64_t ahead = std::min(kStepsAhead, steps);
  for (int64_t tile = 0; tile < kOfX; ++tile) {
    for (int64_t row = 0; row < kTileRows; row += kRows) {
      const std::byte* const rows = x.data + tile * x.second + row * x.row;
      const Fetch fetch = {.rows = x.step == kTileRowBytes ? rows + ahead * kTileRowBytes : nullptr,
                           .row = x.row,
                           .here = steps - ahead,
                           .to_next = (x.ahead != 0 ? x.ahead : kRows * x.row) - steps * kTileRowBytes};
      multiply(rows, x, y, steps, add, sums.data + tile * sums.second_of_x + row * sums.row, sums, fetch);
    }
  }
}

#define ROOFBENCH_INSTANCES(product)                                                                    \
  template void MultiplyByVectors<product, 1, 2>(const TileOperand&, const TileOperand&, int64_t, bool, \
                                                 const TileSums&);                                      \
  template void MultiplyByVectors<product, 2, 1>(const TileOperand&, const TileOperand&, int64_t, bool, \
                                                 const TileSums&);                                      \
  template void MultiplyByVectors<product, 2, 2>(const TileOperand&, const TileOperand&, int64_t, bool, \
                                                 const TileSums&);
ROOFBENCH_INSTANCES(TileProduct::kBf16)
ROOFBENCH_INSTANCES(TileProduct::kInt8)
ROOFBENCH_INSTANCES(TileProduct::kInt8ByUint8)
ROOFBENCH_INSTANCES(TileProduct::kFp32)
#undef ROOFBENCH_INSTANCES

}  // namespace roofbench::kernels
#endif
