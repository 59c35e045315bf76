// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/int4_product.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "lib/kernels/operators/products/int4_product_avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kInWord = 8;    // weights
constexpr int64_t kTogether = 4;  // columns of a row side by side in a panel

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// What a thread keeps for its next product.
struct Scratch {
  template <typename T>
  struct alignas(kLine) Line {
    T values[kLine / sizeof(T)];
  };
  std::vector<Line<uint8_t>> panel;
  std::vector<Line<float>> scales;
  std::vector<float> x_sums;
};

Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

// One tile into its half of a panel and of the panel's scales.
void UnpackTile(const Int4Weight& weight, int64_t tile, int64_t half, uint8_t* panel, float* scales) {
  constexpr auto kWords = static_cast<std::size_t>(kInt4TileRows);
  const std::byte* from = weight.data + tile * Int4TileBytes(weight.k, weight.group);
  panel += half * kLine;
  scales += half * kInt4TileRows;
  for (int64_t g = 0; g < weight.k; g += weight.group, scales += 2 * kInt4PanelRows) {
    uint32_t words[kWords];
    std::memcpy(words, from, sizeof(words));
    from += sizeof(words);
    for (std::size_t row = 0; row < kWords; ++row) {
      scales[row] = ToFloat(Bf16{static_cast<uint16_t>(words[row] & 0xffffU)});
      scales[kInt4PanelRows + static_cast<int64_t>(row)] =
          ToFloat(Bf16{static_cast<uint16_t>(words[row] >> 16)}) - 8 * scales[row];
    }
    for (int64_t i = 0; i < weight.group; i += kInWord, from += sizeof(words)) {
      // Bytes hold columns 0 … 3 in their lower and 4 … 7 in their upper halves.
      uint32_t lower[kWords];
      uint32_t upper[kWords];
      std::memcpy(words, from, sizeof(words));
      for (std::size_t row = 0; row < kWords; ++row) {
        lower[row] = words[row] & 0x0f0f0f0fU;
        upper[row] = (words[row] >> 4) & 0x0f0f0f0fU;
      }
      std::memcpy(panel, lower, sizeof(lower));
      std::memcpy(panel + 2 * kLine, upper, sizeof(upper));
      panel += 4 * kLine;
    }
  }
}

// Sums of each row of x over groups of columns: [m, k / group].
void SumGroups(const LlmInt8Activations& x, int64_t group, std::vector<float>& sums) {
  sums.resize(Size(x.m() * (x.k() / group)));
  float* to = sums.data();
  for (int64_t row = 0; row < x.m(); ++row) {
    const int8_t* const values = x.row(row);
    for (int64_t g = 0; g < x.k(); g += group) {
      *to++ = static_cast<float>(std::accumulate(values + g, values + g + group, int32_t{0}));
    }
  }
}

template <typename Y>
void MultiplyPortably(const Int4Block<Y>& block) {
  const int64_t groups = block.k / block.group;
  for (int64_t i = 0; i < block.m; ++i) {
    const int8_t* x = block.x + i * block.stride;
    const uint8_t* panel = block.panel;
    const float* scales = block.scales;
    float totals[kInt4PanelRows] = {};
    for (int64_t g = 0; g < groups; ++g, scales += 2 * kInt4PanelRows) {
      int32_t sums[kInt4PanelRows] = {};
      for (int64_t j = 0; j < block.group; j += kTogether, x += kTogether, panel += kTogether * kInt4PanelRows) {
        for (int64_t row = 0; row < kInt4PanelRows; ++row) {
          for (int64_t c = 0; c < kTogether; ++c) sums[row] += panel[row * kTogether + c] * x[c];
        }
      }
      const float x_sum = block.x_sums[i * groups + g];
      for (int64_t row = 0; row < kInt4PanelRows; ++row) {
        totals[row] += static_cast<float>(sums[row]) * scales[row] + x_sum * scales[kInt4PanelRows + row];
      }
    }
    const float scale = block.x_max[i] / kInt8Largest;
    for (int64_t row = 0; row < block.rows; ++row) block.y[i * block.y_stride + row] = Rounded<Y>(totals[row] * scale);
  }
}

template <typename Y>
constexpr IsaRow<void (*)(const Int4Block<Y>&)> kWays[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni, avx512::MultiplyInt4},
#endif
    {0, MultiplyPortably<Y>},
};

}  // namespace

template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows) {
  if (rows.size() <= 0) return;
  const Int4Weight& weight = work.weight;
  const LlmInt8Activations& x = *work.activations;
  const int64_t groups = weight.k / weight.group;
  Scratch& scratch = ThreadScratch();
  // Of a last panel that is half full, the other half may hold anything.
  scratch.panel.resize(Size(kInt4PanelRows * weight.k / kLine));
  scratch.scales.resize(Size(groups * 2 * kInt4PanelRows * static_cast<int64_t>(sizeof(float)) / kLine));
  SumGroups(x, weight.group, scratch.x_sums);
  const auto multiply = BestWay<kWays<Y>>();
  for (int64_t first = rows.begin; first < rows.end; first += kInt4PanelRows) {
    const int64_t count = std::min(kInt4PanelRows, rows.end - first);
    for (int64_t half = 0; half < Int4Tiles(count); ++half) {
      UnpackTile(weight, first / kInt4TileRows + half, half, scratch.panel.data()->values,
                 scratch.scales.data()->values);
    }
    multiply({.panel = scratch.panel.data()->values,
              .scales = scratch.scales.data()->values,
              .rows = count,
              .k = weight.k,
              .group = weight.group,
              .x = x.row(0),
              .stride = x.stride(),
              .x_sums = scratch.x_sums.data(),
              .x_max = x.row_max(),
              .m = x.m(),
              .y = work.y + first,
              .y_stride = weight.n});
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
