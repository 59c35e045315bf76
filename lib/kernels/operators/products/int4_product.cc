// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/int4_product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "lib/kernels/operators/products/int8_tiles.h"
#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/simd/avx512.h"

namespace roofbench::kernels {
namespace {

static_assert(kInt8PanelRows == 2 * kInt4TileRows);

// y[i · y_stride + j] for m rows of x and `rows` of a tile or a panel.
template <typename Y>
struct Int4Block {
  const std::byte* tile = nullptr;
  const uint8_t* panel = nullptr;  // q: [k / group, panel_group / 4, kInt8PanelRows, 4], on a line
  const float* scales = nullptr;   // [k / group, 2, kInt8PanelRows]: scale, and zero - 8 · scale; on a line
  int64_t rows = 0;                // of the panel, or of the tile and the one beside it
  int64_t second = 0;              // rows from the tile to the one beside it; 0: there is none
  int64_t k = 0;
  int64_t group = 0;
  int64_t panel_group = 0;    // columns of a group in a panel, zeros from `group` on
  const int8_t* x = nullptr;  // [m, stride]
  int64_t stride = 0;
  const float* x_sums = nullptr;  // [m, k / group]
  const float* x_max = nullptr;   // [m]
  Range groups = {};              // whose sums were computed before
  const int32_t* sums = nullptr;  // [groups, sum_rows, kInt8PanelRows]
  int64_t sum_rows = 0;           // m or more
  float* totals = nullptr;  // [m, kInt8PanelRows] of the groups before; on return with these, unless they are the last
  int64_t m = 0;
  Y* y = nullptr;
  int64_t y_stride = 0;
};

// All products return the same numbers.
template <typename Y>
struct Int4Variant {
  bool by_two = false;                                    // takes a tile and another one beside it
  void (*few_rows)(const Int4Block<Y>& block) = nullptr;  // of a tile
  // Unpacks one tile into its half of a panel and of the panel's scales, for registers that sum many rows of x.
  void (*unpack)(const Int4Weight& weight, int64_t tile, int64_t half, int64_t panel_group, uint8_t* panel,
                 float* scales) = nullptr;
  void (*summed_rows)(const Int4Block<Y>& block) = nullptr;  // of a panel, from block.sums; y after the last groups
};

constexpr int64_t kTogether = 4;  // adjacent columns of a row
// From this many rows of x on, tiles are unpacked for registers, which gain from about as many (4096 x 4096, two cores
// of a Xeon with them, 2026-11-28: 8 rows 0.87 by tiles against 0.51 ms, 16 rows 0.97 against 0.95, 32 rows 1.4 against
// 2.1).
constexpr int64_t kManyRows = 24;

// Rows of x whose groups are summed by tiles at a time.
constexpr int64_t kSummedRows = int64_t{2} * kTileRows;

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// Buffers that a thread keeps for its next product.
struct Scratch {
  std::vector<Line<uint8_t>> panel;
  std::vector<Line<float>> scales;
  std::vector<Line<int32_t>> sums;
  std::vector<Line<float>> totals;
};

thread_local Scratch t_scratch;

template <typename Y>
void MultiplyPortably(const Int4Block<Y>& block) {
  constexpr auto kRows = static_cast<std::size_t>(kInt4TileRows);
  const int64_t groups = block.k / block.group;
  for (int64_t i = 0; i < block.m; ++i) {
    const int8_t* x = block.x + i * block.stride;
    const std::byte* from = block.tile;
    float totals[kRows] = {};
    for (int64_t g = 0; g < groups; ++g) {
      uint32_t scales[kRows];
      std::memcpy(scales, from, sizeof(scales));
      from += sizeof(scales);
      int32_t sums[kRows] = {};
      for (int64_t j = 0; j < block.group; j += 2 * kTogether, x += 2 * kTogether, from += sizeof(scales)) {
        uint32_t words[kRows];
        std::memcpy(words, from, sizeof(words));
        for (std::size_t row = 0; row < kRows; ++row) {
          // Bytes hold columns 0 … 3 in their lower and 4 … 7 in their upper halves.
          for (int64_t c = 0; c < kTogether; ++c) {
            const auto both = static_cast<int32_t>(words[row] >> (8 * c) & 0xffU);
            sums[row] += (both & 15) * x[c] + (both >> 4) * x[kTogether + c];
          }
        }
      }
      const float x_sum = block.x_sums[i * groups + g];
      for (std::size_t row = 0; row < kRows; ++row) {
        const float scale = ToFloat(Bf16{static_cast<uint16_t>(scales[row] & 0xffffU)});
        const float zero = ToFloat(Bf16{static_cast<uint16_t>(scales[row] >> 16)}) - 8 * scale;
        totals[row] += static_cast<float>(sums[row]) * scale + x_sum * zero;
      }
    }
    const float scale = block.x_max[i] / kInt8Largest;
    for (int64_t row = 0; row < block.rows; ++row) {
      block.y[i * block.y_stride + row] = Rounded<Y>(totals[Size(row)] * scale);
    }
  }
}

}  // namespace

#if ROOFBENCH_X86
// The dot products multiply unsigned by signed bytes; q is already unsigned.
namespace avx512 {
namespace {

constexpr int64_t kFloats = 16;  // in a vector: the rows of a tile

ROOFBENCH_TARGET_AVX512_VNNI inline void Store(float* to, int64_t count, __m512 values) {
  StoreFirst(to, count, _mm512_castps_si512(values));
}

// Rounds to nearest, ties to even, as ToBf16: processors with 8-bit dot products need not have bf16.
ROOFBENCH_TARGET_AVX512_VNNI inline void Store(Bf16* to, int64_t count, __m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(upper, _mm512_set1_epi32(1)));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i words = _mm512_mask_or_epi32(rounded, is_nan, upper, _mm512_set1_epi32(0x40));
  _mm256_mask_storeu_epi16(to, Mask16(count), _mm512_cvtepi32_epi16(words));
}

// Multiplies kTiles tiles with kOfX rows of x, eight columns at a time: x is broadcast, for both tiles, and each lane
// sums a row of a tile.
template <int kTiles, int kOfX, typename Y>
ROOFBENCH_TARGET_AVX512_VNNI inline void TileRows(const Int4Block<Y>& block, int64_t x_row) {
  const std::byte* tile = block.tile;
  const int64_t distance = block.second / kInt4TileRows * Int4TileBytes(block.k, block.group);
  const int64_t stride = block.stride;
  const int8_t* x = block.x + x_row * stride;
  const int64_t groups = block.k / block.group;
  const float* x_sums = block.x_sums + x_row * groups;
  __m512 totals[kTiles][kOfX];
  Clear(totals);
  for (int64_t g = 0; g < groups; ++g, ++x_sums) {
    __m512i sums[kTiles][kOfX];
    Clear(sums);
    Int4Scales of_group[kTiles];
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
      FetchStream(tile + t * distance);
      of_group[t] = ScalesOf(_mm512_loadu_si512(tile + t * distance));
    }
    tile += kLineBytes;
    for (int64_t i = 0; i < block.group; i += 8, tile += kLineBytes, x += 8) {
      __m512i halves[2][kTiles];
      LoadHalves(tile, distance, StreamFetch(), halves);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
        for (int c = 0; c < kOfX; ++c) {
          const __m512i of_x = BroadcastFour(x + c * stride + 4 * half);
#pragma GCC unroll 2
          for (int t = 0; t < kTiles; ++t) AddDot(sums[t][c], halves[half][t], of_x);
        }
      }
    }
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) {
        totals[t][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][c]), of_group[t].scale, totals[t][c]);
        totals[t][c] = _mm512_fmadd_ps(_mm512_set1_ps(x_sums[c * groups]), of_group[t].zero, totals[t][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kOfX; ++c) {
    const __m512 scale = _mm512_set1_ps(block.x_max[x_row + c] / kInt8Largest);
    Y* const y = block.y + (x_row + c) * block.y_stride;
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t)
      Store(y + t * block.second, block.rows - t * kFloats, _mm512_mul_ps(totals[t][c], scale));
  }
}

// By the tiles that the block has.
template <int kOfX, typename Y>
void TilesRows(const Int4Block<Y>& block, int64_t x_row) {
  block.second > 0 ? TileRows<2, kOfX>(block, x_row) : TileRows<1, kOfX>(block, x_row);
}

ROOFBENCH_TARGET_AVX512_VNNI void UnpackTile(const Int4Weight& weight, int64_t index, int64_t half, int64_t panel_group,
                                             uint8_t* panel, float* scales) {
  const std::byte* tile = weight.data + index * Int4TileBytes(weight.k, weight.group);
  panel += half * kLineBytes;
  scales += half * kFloats;
  for (int64_t g = 0; g < weight.k; g += weight.group, scales += 2 * kInt8PanelRows) {
    FetchStream(tile);
    const Int4Scales of_group = ScalesOf(_mm512_loadu_si512(tile));
    tile += kLineBytes;
    _mm512_store_ps(scales, of_group.scale);
    _mm512_store_ps(scales + kInt8PanelRows, of_group.zero);
    for (int64_t i = 0; i < weight.group; i += 8, tile += kLineBytes, panel += 4 * kLineBytes) {
      FetchStream(tile);
      const Int4Halves halves = HalvesOf(_mm512_loadu_si512(tile));
      _mm512_store_si512(panel, halves.lower);
      _mm512_store_si512(panel + 2 * kLineBytes, halves.upper);
    }
    for (int64_t i = weight.group; i < panel_group; i += 4, panel += 2 * kLineBytes) {
      _mm512_store_si512(panel, _mm512_setzero_si512());
    }
  }
}

// Scales the sums of rows of x with the groups of a panel.
template <int kOfX, typename Y>
ROOFBENCH_TARGET_AVX512_VNNI void ScaledRows(const Int4Block<Y>& block, int64_t x_row) {
  const float* scales = block.scales + block.groups.begin * 2 * kInt8PanelRows;
  const int64_t groups = block.k / block.group;
  const float* const x_sums = block.x_sums + x_row * groups;
  float* const kept = block.totals + x_row * kInt8PanelRows;
  __m512 totals[kOfX][2];
  Clear(totals);
  if (block.groups.begin > 0) {
#pragma GCC unroll 6
    for (int c = 0; c < kOfX; ++c) {
      totals[c][0] = _mm512_load_ps(kept + c * kInt8PanelRows);
      totals[c][1] = _mm512_load_ps(kept + c * kInt8PanelRows + kFloats);
    }
  }
  for (int64_t g = block.groups.begin; g < block.groups.end; ++g, scales += 2 * kInt8PanelRows) {
    const int32_t* const sums = block.sums + ((g - block.groups.begin) * block.sum_rows + x_row) * kInt8PanelRows;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512 scale = _mm512_load_ps(scales + half * kFloats);
      const __m512 zero = _mm512_load_ps(scales + kInt8PanelRows + half * kFloats);
#pragma GCC unroll 6
      for (int c = 0; c < kOfX; ++c) {
        const __m512i sum = _mm512_load_si512(sums + c * kInt8PanelRows + half * kFloats);
        totals[c][half] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, totals[c][half]);
        totals[c][half] = _mm512_fmadd_ps(_mm512_set1_ps(x_sums[c * groups + g]), zero, totals[c][half]);
      }
    }
  }
  if (block.groups.end < groups) {
#pragma GCC unroll 6
    for (int c = 0; c < kOfX; ++c) {
      _mm512_store_ps(kept + c * kInt8PanelRows, totals[c][0]);
      _mm512_store_ps(kept + c * kInt8PanelRows + kFloats, totals[c][1]);
    }
    return;
  }
#pragma GCC unroll 6
  for (int c = 0; c < kOfX; ++c) {
    const __m512 scale = _mm512_set1_ps(block.x_max[x_row + c] / kInt8Largest);
    Y* const y = block.y + (x_row + c) * block.y_stride;
    Store(y, block.rows, _mm512_mul_ps(totals[c][0], scale));
    if (block.rows > kFloats) Store(y + kFloats, block.rows - kFloats, _mm512_mul_ps(totals[c][1], scale));
  }
}

template <typename Y>
void FewRows(const Int4Block<Y>& block) {
  constexpr void (*kByCount[])(const Int4Block<Y>&, int64_t) = {TilesRows<1, Y>, TilesRows<2, Y>, TilesRows<3, Y>,
                                                                TilesRows<4, Y>, TilesRows<5, Y>, TilesRows<6, Y>,
                                                                TilesRows<7, Y>, TilesRows<8, Y>};
  InGroups(block, std::size(kByCount), kByCount);
}

template <typename Y>
void SummedRows(const Int4Block<Y>& block) {
  constexpr void (*kByCount[])(const Int4Block<Y>&, int64_t) = {ScaledRows<1, Y>, ScaledRows<2, Y>, ScaledRows<3, Y>,
                                                                ScaledRows<4, Y>, ScaledRows<5, Y>, ScaledRows<6, Y>};
  InGroups(block, std::size(kByCount), kByCount);
}

}  // namespace
}  // namespace avx512
#endif

namespace {

template <typename Y>
constexpr IsaVariant<Int4Variant<Y>> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni,
     {.by_two = true,
      .few_rows = avx512::FewRows<Y>,
      .unpack = avx512::UnpackTile,
      .summed_rows = avx512::SummedRows<Y>}},
#endif
    {0, {.few_rows = MultiplyPortably<Y>}},
};

// Rows of x that fill tiles, the last one by half, are summed by `sum`, then scaled.
template <typename Y>
void MultiplyPanel(const Int4Variant<Y>& variant, const Int4Block<Y>& block, SumInt4Groups sum) {
  const int64_t groups = block.k / block.group;
  int32_t* const sums = t_scratch.sums.data()->values;
  Int4Block<Y> part = block;
  for (int64_t row = 0; row < block.m; row += part.m) {
    part.m = block.m - row;
    part.x = block.x + row * block.stride;
    part.x_sums = block.x_sums + row * groups;
    part.x_max = block.x_max + row;
    part.y = block.y + row * block.y_stride;
    if (part.m < kLeastTileLinearRows) {
      variant.few_rows(part);
      continue;
    }
    part.sum_rows = part.m < kTileRows + kLeastTileLinearRows ? kTileRows : kSummedRows;
    part.m = std::min(part.m, part.sum_rows);
    part.sums = sums;
    part.totals = t_scratch.totals.data()->values;
    sum({.x = part.x,
         .stride = part.stride,
         .rows = part.sum_rows,
         .groups = groups,
         .group = part.group,
         .panel = part.panel,
         .panel_group = part.panel_group,
         .sums = sums},
        [&](Range some) {
          part.groups = some;
          variant.summed_rows(part);
        });
  }
}

}  // namespace

template <typename Y>
void RunRowsByTiles(const Int4Product<Y>& work, Range rows, SumInt4Groups sum) {
  const Int4Weight& weight = work.weight;
  const Int8Activations& x = *work.activations;
  if (x.group() != weight.group) throw std::logic_error("activations were not summed by the groups of the int4 weight");
  const Int4Variant<Y>& variant = BestVariant<kVariants<Y>>();
  const bool unpacks = sum != nullptr && variant.unpack != nullptr && x.m() >= kManyRows;
  const int64_t groups = weight.k / weight.group;
  Int4Block<Y> block{.k = weight.k,
                     .group = weight.group,
                     .panel_group = sum != nullptr ? RoundUp(weight.group, kTileRowBytes) : weight.group,
                     .x = x.row(0),
                     .stride = x.stride(),
                     .x_sums = x.group_sums(),
                     .x_max = x.row_max(),
                     .m = x.m(),
                     .y_stride = weight.n};
  Scratch& scratch = t_scratch;
  if (unpacks) {
    // In a half-full last panel, the other half may hold any value.
    scratch.panel.resize(Size(kInt8PanelRows * groups * block.panel_group / kLineBytes));
    scratch.scales.resize(Size(groups * 2 * kInt8PanelRows * int64_t{sizeof(float)} / kLineBytes));
    scratch.sums.resize(Size(kSummedGroups * kSummedRows * kInt8PanelRows * int64_t{sizeof(int32_t)} / kLineBytes));
    scratch.totals.resize(Size(kSummedRows * kInt8PanelRows * int64_t{sizeof(float)} / kLineBytes));
    block.panel = scratch.panel.data()->values;
    block.scales = scratch.scales.data()->values;
  }
  const auto run = [&](int64_t first, int64_t rows_of, int64_t second) {
    const int64_t tile = first / kInt4TileRows;
    block.tile = weight.data + tile * Int4TileBytes(weight.k, weight.group);
    block.rows = rows_of;
    block.second = second;
    block.y = work.y + first;
    if (!unpacks) return variant.few_rows(block);
    for (int64_t half = 0; half < Int4Tiles(block.rows); ++half) {
      variant.unpack(weight, tile + half, half, block.panel_group, scratch.panel.data()->values,
                     scratch.scales.data()->values);
    }
    MultiplyPanel(variant, block, sum);
  };
  if (unpacks) {
    for (int64_t first = rows.begin; first < rows.end; first += kInt8PanelRows) {
      const int64_t count = std::min(kInt8PanelRows, rows.end - first);
      run(first, count, count > kInt4TileRows ? kInt4TileRows : 0);
    }
    return;
  }
  // Two tiles share the broadcasts of x, which would take twice the time of the products of one. Few rows wait for
  // memory, which a single stream of tiles brings sooner. Each of two is contiguous, so that neither begins anew.
  constexpr int64_t kMostStreamed = 4;
  const bool by_two = variant.by_two && x.m() > kMostStreamed;
  const int64_t second = by_two ? Int4Tiles(rows.size()) / 2 * kInt4TileRows : 0;
  for (int64_t first = rows.begin; first < rows.begin + second; first += kInt4TileRows) {
    run(first, kInt4TileRows + std::min(kInt4TileRows, rows.end - first - second), second);
  }
  for (int64_t first = rows.begin + 2 * second; first < rows.end; first += kInt4TileRows) {
    run(first, std::min(kInt4TileRows, rows.end - first), 0);
  }
}

template void RunRowsByTiles(const Int4Product<float>&, Range, SumInt4Groups);
template void RunRowsByTiles(const Int4Product<Bf16>&, Range, SumInt4Groups);

template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows) {
#if ROOFBENCH_X86
  if (IsaHas(kAmxInt8 | kAvx512Vnni)) return RunRowsByTiles(work, rows, SumInt4GroupsByTiles<HardwareTiles>);
#endif
  RunRowsByTiles(work, rows, nullptr);
}

template void RunRows(const Int4Product<float>&, Range);
template void RunRows(const Int4Product<Bf16>&, Range);

}  // namespace roofbench::kernels
