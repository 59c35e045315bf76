// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/tile_product.h"

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kGroupBytes = 4;  // of a row of w, which a product takes at once

using StoreRow = void (*)(const float* sums, Bf16* y);

void StorePortably(const float* sums, Bf16* y) { std::transform(sums, sums + kTileColumns, y, ToBf16); }

#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512_BF16 void StoreByAvx512(const float* sums, Bf16* y) {
  const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(sums));
  std::memcpy(y, &rounded, sizeof(rounded));
}
#endif

constexpr IsaVariant<StoreRow> kStores[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, StoreByAvx512},
#endif
    {0, StorePortably},
};

void ClearPanel(std::byte* panel, int64_t steps) {
  std::memset(panel, 0, static_cast<std::size_t>(steps * kPanelStepBytes));
}

}  // namespace

void StoreTileRow(const float* sums, Bf16* y) { BestVariant<kStores>()(sums, y); }

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

void PackTileWeights(const std::byte* w, int64_t n, int64_t row_bytes, std::byte* panels, const ParallelFor& parallel) {
  const int64_t steps = TileSteps(row_bytes);
  parallel(CeilDiv(n, kPanelRows), [&](Range range) {
    for (int64_t index = range.begin; index < range.end; ++index) {
      std::byte* const panel = panels + index * steps * kPanelStepBytes;
      ClearPanel(panel, steps);
      for (int64_t row = index * kPanelRows; row < std::min(n, (index + 1) * kPanelRows); ++row) {
        std::byte* const tile = panel + row % kPanelRows / kTileColumns * kTileBytes;
        for (int64_t at = 0; at < row_bytes; at += kGroupBytes) {
          const int64_t group = at % kTileRowBytes / kGroupBytes;
          std::memcpy(
              tile + at / kTileRowBytes * kPanelStepBytes + group * kTileRowBytes + row % kTileColumns * kGroupBytes,
              w + row * row_bytes + at, static_cast<std::size_t>(std::min(kGroupBytes, row_bytes - at)));
        }
      }
    }
  });
}

}  // namespace roofbench::kernels
