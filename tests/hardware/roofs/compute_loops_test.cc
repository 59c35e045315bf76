// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/hardware/roofs/tile_loop.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/tile.h"
#include "tests/kernels/simd/trapped_tiles.h"

namespace roofbench::hardware {
namespace {

using kernels::TileProduct;
using workload::Dtype;

TEST(ComputeLoops, ComputeAndCountTheSame) {
  ASSERT_FALSE(ComputeLoops().empty());
  EXPECT_EQ(ComputeLoops().front().dtype, Dtype::kFp32);
  for (const ComputeLoop& loop : ComputeLoops()) {
    if (loop.HasTiles()) continue;  // TileLoops has these
    for (const int64_t iterations : {0, 1, 2, 5, 100}) {
      // Expected rounds to fp16 after each step. fp32 keeps 24 bits; a sum of up to 400 values of about 10, and of 100
      // steps each for bf16, loses a few of them.
      const double of_each = loop.dtype == Dtype::kInt8 || loop.dtype == Dtype::kFp16 ? 0
                             : loop.dtype == Dtype::kFp64                             ? 1e-14
                                                                                      : 1e-5;
      const double tolerance = of_each * loop.layout.sums * loop.layout.lanes * 10;
      EXPECT_NEAR(loop.run(iterations), loop.Expected(iterations, Factors::kRandom), tolerance)
          << loop.name << ", " << iterations << " iterations";
      EXPECT_NEAR(loop.run_on_zeros(iterations), loop.Expected(iterations, Factors::kZeros), tolerance) << loop.name;
    }
  }
}

template <typename Tiles, TileProduct kProduct>
void ExpectTileLoop() {
  for (const int64_t iterations : {0, 1, 2, 5, 100}) {
    // fp32 sums of up to 100 x 5 (32 products of either sign, each below 0.81), in 1,024 elements.
    const double tolerance =
        kProduct == TileProduct::kInt8 ? 0 : 1e-6 * kTileSums * kernels::kTileRows * kernels::kTileColumns * 5;
    for (const Factors factors : {Factors::kRandom, Factors::kZeros}) {
      EXPECT_NEAR((TileLoop<Tiles, kProduct>(iterations, factors)), ExpectedOfTiles(kProduct, iterations, factors),
                  tolerance * static_cast<double>(1 + iterations))
          << iterations << " iterations";
    }
  }
}

TEST(TileLoops, EmulationComputesAndCountsTheSame) {
  ExpectTileLoop<kernels::EmulatedTiles, TileProduct::kBf16>();
  ExpectTileLoop<kernels::EmulatedTiles, TileProduct::kInt8>();
  // Four products of 16 x 16 sums over 32 bf16 or 64 bytes.
  EXPECT_EQ(TileLoopFlops(TileProduct::kBf16), 4 * 2.0 * 16 * 16 * 32);
  EXPECT_EQ(TileLoopFlops(TileProduct::kInt8), 4 * 2.0 * 16 * 16 * 64);
}

TEST(TileLoops, HardwareComputesTheSame) {
#if ROOFBENCH_X86
  const kernels::TrappedTiles trapped;
  if (!kernels::IsaHas(kernels::kAmxBf16 | kernels::kAmxInt8)) GTEST_SKIP() << kernels::kNoTiles;
  ExpectTileLoop<kernels::HardwareTiles, TileProduct::kBf16>();
  ExpectTileLoop<kernels::HardwareTiles, TileProduct::kInt8>();
#else
  GTEST_SKIP() << kernels::kNoTiles;
#endif
}

TEST(ComputeLoops, StayFiniteForLong) {
  for (const ComputeLoop& loop : ComputeLoops()) {
    const double result = loop.run(1'000'000);
    EXPECT_TRUE(std::isfinite(result)) << loop.name;
    EXPECT_NE(result, loop.run(0)) << loop.name;
    EXPECT_EQ(result, loop.run(1'000'000)) << loop.name;
  }
}

}  // namespace
}  // namespace roofbench::hardware
