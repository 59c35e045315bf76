// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/int4_product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "lib/kernels/operators/products/int4_product_avx512.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/streaming.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kTogether = 4;  // columns of a row side by side
// From so many rows of x on tiles are unpacked to memory: one broadcast of x serves both of them then, which is faster
// than to save that step (quarter of Llama-3.2-1B, two-core EPYC, 2026-11-23: 16 rows 16 against 22 ms, 32 rows 33
// against 36, prompts of 64 and more 83 against 53).
constexpr int64_t kManyRows = 24;

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// What a thread keeps for its next product.
struct Scratch {
  template <typename T>
  struct alignas(kLineBytes) Line {
    T values[kLineBytes / sizeof(T)];
  };
  std::vector<Line<uint8_t>> panel;
  std::vector<Line<float>> scales;
};

Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

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

template <typename Y>
const Int4Variant<Y>& PortableInt4Variant() {
  static constexpr Int4Variant<Y> kVariant = {.few_rows = MultiplyPortably<Y>};
  return kVariant;
}

template <typename Y>
constexpr IsaVariant<const Int4Variant<Y>& (*)()> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni, Avx512Int4Variant<Y>},
#endif
    {0, PortableInt4Variant<Y>},
};

}  // namespace

template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows) {
  const Int4Weight& weight = work.weight;
  const LlmInt8Activations& x = *work.activations;
  if (x.group() != weight.group) throw std::logic_error("activations were not summed by the groups of the int4 weight");
  const Int4Variant<Y>& variant = BestVariant<kVariants<Y>>()();
  const bool unpacks = variant.unpack != nullptr && x.m() >= kManyRows;
  Int4Block<Y> block{.k = weight.k,
                     .group = weight.group,
                     .x = x.row(0),
                     .stride = x.stride(),
                     .x_sums = x.group_sums(),
                     .x_max = x.row_max(),
                     .m = x.m(),
                     .y_stride = weight.n};
  Scratch& scratch = ThreadScratch();
  if (unpacks) {
    // Of a last panel that is half full, the other half may hold anything.
    scratch.panel.resize(Size(kInt4PanelRows * weight.k / kLineBytes));
    scratch.scales.resize(Size(weight.k / weight.group * 2 * kInt4PanelRows * int64_t{sizeof(float)} / kLineBytes));
    block.panel = scratch.panel.data()->values;
    block.scales = scratch.scales.data()->values;
  }
  const int64_t step = unpacks ? kInt4PanelRows : kInt4TileRows;
  for (int64_t first = rows.begin; first < rows.end; first += step) {
    const int64_t tile = first / kInt4TileRows;
    block.tile = weight.data + tile * Int4TileBytes(weight.k, weight.group);
    block.rows = std::min(step, rows.end - first);
    block.y = work.y + first;
    for (int64_t half = 0; unpacks && half < Int4Tiles(block.rows); ++half) {
      variant.unpack(weight, tile + half, half, scratch.panel.data()->values, scratch.scales.data()->values);
    }
    (unpacks ? variant.many_rows : variant.few_rows)(block);
  }
}

template <typename Y>
void Run(const Int4Product<Y>& work, const ParallelFor& parallel_for) {
  parallel_for(work.weight.n, kInt4PanelRows, [&](Range rows) { RunRows(work, rows); });
}

template void RunRows(const Int4Product<float>&, Range);
template void RunRows(const Int4Product<Bf16>&, Range);
template void Run(const Int4Product<float>&, const ParallelFor&);
template void Run(const Int4Product<Bf16>&, const ParallelFor&);

}  // namespace roofbench::kernels
