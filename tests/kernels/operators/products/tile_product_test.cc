// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/kernels/simd/split_mix.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

struct Shape {
  int64_t m, n, k;
};

// Full and partial tiles, panels, blocks and slabs of every operand; one row, one column, an odd number of elements.
constexpr Shape kShapes[] = {{1, 1, 1},     {16, 16, 32}, {33, 31, 65},  {17, 70, 3},  {70, 17, 40},
                             {40, 300, 97}, {260, 1, 3},  {33, 33, 600}, {1, 1, 1100}, {5, 257, 65}};

template <TileProduct kProduct>
TileFactor<kProduct> Draw(SplitMix64& random) {
  if constexpr (kProduct == TileProduct::kBf16) {
    return ToBf16(static_cast<float>(random() >> 40) * 0x1p-23F - 1);
  } else {
    return static_cast<int8_t>(random());
  }
}

template <typename Tiles, TileProduct kProduct>
void ExpectProduct(const Shape& shape, const ParallelFor& parallel) {
  SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
  SplitMix64 random;
  std::vector<TileFactor<kProduct>> x(Size(shape.m * shape.k));
  std::vector<TileFactor<kProduct>> w(Size(shape.n * shape.k));
  std::ranges::generate(x, [&] { return Draw<kProduct>(random); });
  std::ranges::generate(w, [&] { return Draw<kProduct>(random); });
  const int64_t row_bytes = shape.k * static_cast<int64_t>(sizeof(x[0]));
  // Packing has to write every byte.
  std::vector<std::byte> packed(Size(PanelBytes(shape.n, TileSteps(row_bytes))), std::byte{0x7f});
  PackTileWeights(std::as_bytes(std::span(w)).data(), shape.n, row_bytes, packed.data(), parallel);
  std::vector<TileResult<kProduct>> y(Size(shape.m * shape.n) + 1);
  const auto beyond = y.back();
  const TiledProduct<Tiles, kProduct> product = {
      .x = x.data(), .w = packed.data(), .y = y.data(), .m = shape.m, .n = shape.n, .k = shape.k};
  product(parallel);
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double exact = 0;
      double norm = 0;
      for (int64_t c = 0; c < shape.k; ++c) {
        double term = 0;
        if constexpr (kProduct == TileProduct::kBf16) {
          term = double{ToFloat(x[Size(i * shape.k + c)])} * ToFloat(w[Size(j * shape.k + c)]);
        } else {
          term = x[Size(i * shape.k + c)] * w[Size(j * shape.k + c)];
        }
        exact += term;
        norm += std::abs(term);
      }
      if constexpr (kProduct == TileProduct::kBf16) {
        // Half a unit of bf16, and the sums in fp32.
        ASSERT_NEAR(ToFloat(y[Size(i * shape.n + j)]), exact, std::abs(exact) * 0x1p-8 + norm * 0x1p-20)
            << i << ", " << j;
      } else {
        ASSERT_EQ(y[Size(i * shape.n + j)], static_cast<int32_t>(exact)) << i << ", " << j;
      }
    }
  }
  EXPECT_EQ(y.back(), beyond);
}

template <typename Tiles>
void ExpectProducts() {
  const SerialFor serial;
  const ThreadPool pool(3);
  for (const Shape& shape : kShapes) {
    for (const ParallelFor* parallel :
         {static_cast<const ParallelFor*>(&serial), static_cast<const ParallelFor*>(&pool)}) {
      ExpectProduct<Tiles, TileProduct::kBf16>(shape, *parallel);
      ExpectProduct<Tiles, TileProduct::kInt8>(shape, *parallel);
    }
  }
}

TEST(TileProduct, EmulatedEqualsPlainLoops) { ExpectProducts<EmulatedTiles>(); }

TEST(TileProduct, HardwareEqualsPlainLoops) {
#if ROOFBENCH_X86
  if (!HasTiles(TileProduct::kBf16) || !HasTiles(TileProduct::kInt8)) GTEST_SKIP() << "this processor has no AMX";
  ExpectProducts<HardwareTiles>();
#else
  GTEST_SKIP() << "tiles are of x86";
#endif
}

TEST(TileProduct, BlocksAreEnoughForAllThreads) {
  EXPECT_EQ(TileBlocks(4096, 4096, 2).side, 256);
  EXPECT_EQ(TileBlocks(4096, 4096, 2).count, 256);
  EXPECT_EQ(TileBlocks(512, 512, 2).side, 128);
  EXPECT_EQ(TileBlocks(512, 512, 64).side, 32);
  EXPECT_EQ(TileBlocks(1, 40, 2).count, 2);
}

TEST(TileProduct, StoresTheSameInEveryVariant) {
  std::vector<float> sums(kTileColumns);
  SplitMix64 random;
  for (float& sum : sums) sum = static_cast<float>(random() >> 40) * 0x1p-20F - 8;
  std::vector<Bf16> best(kTileColumns);
  StoreTileRow(sums.data(), best.data());
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(best[i].bits, ToBf16(sums[i]).bits) << i;
  const LimitIsa none(0);
  std::vector<Bf16> portable(kTileColumns);
  StoreTileRow(sums.data(), portable.data());
  EXPECT_EQ(portable, best);
}

}  // namespace
}  // namespace roofbench::kernels
