// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/hardware/roofs/tile_loop.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/split_mix.h"
#include "lib/kernels/simd/tile.h"
#include "tests/kernels/simd/trapped_tiles.h"

namespace roofbench::hardware {
namespace {

using kernels::TileProduct;
using workload::Dtype;

// The layout of each loop. From it the tests compute the loop's result, one element at a time; a wrong count of
// operations shows as a wrong sum.
struct Layout {
  std::string_view name;
  int sums;
  int pairs;
  int lanes;     // elements of a sum vector
  int products;  // that one lane adds at once
};

constexpr Layout kLayouts[] = {
    {"multiply-add baseline", 12, 2, 4, 1}, {"fma avx2", 12, 2, 8, 1},      {"fma avx512", 24, 4, 16, 1},
    {"vdpbf16ps avx512", 24, 4, 16, 2},     {"vpdpbusd avx2", 12, 2, 8, 4}, {"vpdpbusd avx512", 16, 4, 16, 4},
};

// The operands of the loops: fp32 of magnitude 0.5 to 0.9.
class Operands {
 public:
  explicit Operands(Dtype dtype) {
    constexpr int kOperandBytes = 4 * 64;
    constexpr int kSumBytes = 24 * 64;
    const int bytes = dtype == Dtype::kFp32 ? 4 : dtype == Dtype::kBf16 ? 2 : 1;
    for (std::vector<double>* operand : {&x, &y}) {
      for (int i = 0; i < kOperandBytes / bytes; ++i) {
        const uint64_t bits = random_();
        if (dtype == Dtype::kInt8) {
          // The first factor is unsigned, the second signed.
          operand->push_back(operand == &x ? static_cast<double>(static_cast<uint8_t>(bits))
                                           : static_cast<double>(static_cast<int8_t>(bits)));
        } else {
          const float value = Float(bits);
          const uint32_t kept = std::bit_cast<uint32_t>(value) & (dtype == Dtype::kBf16 ? 0xffff0000 : 0xffffffff);
          operand->push_back(std::bit_cast<float>(kept));
        }
      }
    }
    for (int i = 0; i < kSumBytes / 4; ++i) {
      const float value = Float(random_());
      sums.push_back(dtype == Dtype::kInt8 ? static_cast<double>(std::bit_cast<int32_t>(value))
                                           : static_cast<double>(value));
    }
  }

  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> sums;

 private:
  static float Float(uint64_t bits) {
    const float magnitude = 0.5F + 0.4F * static_cast<float>(bits >> 40) * 0x1p-24F;
    return (bits & 1) != 0 ? magnitude : -magnitude;
  }

  kernels::SplitMix64 random_;
};

double Wrapped(double value) {  // to int32
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
}

// The sum of all lanes after `iterations`, in double precision.
double Expected(const Layout& layout, Dtype dtype, int64_t iterations) {
  const Operands operands(dtype);
  double total = 0;
  for (int a = 0; a < layout.sums; ++a) {
    for (int lane = 0; lane < layout.lanes; ++lane) {
      double sum = operands.sums[static_cast<std::size_t>(a * layout.lanes + lane)];
      for (int64_t i = 0; i < iterations; ++i) {
        for (int o = 0; o < layout.pairs; ++o) {
          const int first = ((a + o) % layout.pairs * layout.lanes + lane) * layout.products;
          if (dtype == Dtype::kFp32) {
            sum = sum * operands.x[static_cast<std::size_t>(first)] + operands.y[static_cast<std::size_t>(first)];
            continue;
          }
          for (int p = first; p < first + layout.products; ++p) {
            sum += operands.x[static_cast<std::size_t>(p)] * operands.y[static_cast<std::size_t>(p)];
          }
          if (dtype == Dtype::kInt8) sum = Wrapped(sum);
        }
      }
      total += sum;
    }
  }
  return total;
}

TEST(ComputeLoops, ComputeAndCountTheSame) {
  ASSERT_FALSE(ComputeLoops().empty());
  EXPECT_EQ(ComputeLoops().front().dtype, Dtype::kFp32);
  for (const ComputeLoop& loop : ComputeLoops()) {
    if (loop.name.ends_with(" amx")) continue;  // TileLoops has these
    const auto* const layout = std::ranges::find_if(kLayouts, [&](const Layout& one) { return one.name == loop.name; });
    ASSERT_NE(layout, std::end(kLayouts)) << loop.name;
    EXPECT_EQ(loop.flops_per_iteration, 2.0 * layout->sums * layout->pairs * layout->lanes * layout->products)
        << loop.name;
    for (const int64_t iterations : {0, 1, 2, 5, 100}) {
      const double expected = Expected(*layout, loop.dtype, iterations);
      // fp32 keeps 24 bits; a sum of up to 400 values of about 10, and of 100 steps each for bf16, loses a few of them.
      const double tolerance = loop.dtype == Dtype::kInt8 ? 0 : 1e-5 * layout->sums * layout->lanes * 10;
      EXPECT_NEAR(loop.run(iterations), expected, tolerance) << loop.name << ", " << iterations << " iterations";
    }
  }
}

// The sum of all elements of the four tiles of sums, in double precision.
double ExpectedOfTiles(TileProduct product, int64_t iterations) {
  constexpr int kRows = kernels::kTileRows;
  const int parts = product == TileProduct::kBf16 ? 2 : 4;
  const auto element = [&](const auto& bytes, int tile, int row, int index) -> double {
    const std::byte* const at =
        &bytes[static_cast<std::size_t>(tile * kernels::kTileBytes + row * kernels::kTileRowBytes)];
    if (product == TileProduct::kInt8) return static_cast<int8_t>(at[index]);
    uint16_t half;
    std::memcpy(&half, at + 2 * index, sizeof(half));
    return std::bit_cast<float>(uint32_t{half} << 16);
  };
  const TileOperands& operands =
      product == TileProduct::kBf16 ? OperandsOf<TileOperands, Bf16Element>() : OperandsOf<TileOperands, Int8Element>();
  double total = 0;
  for (int tile = 0; tile < kTileSums; ++tile) {
    for (int m = 0; m < kRows; ++m) {
      for (int n = 0; n < kRows; ++n) {
        double dot = 0;
        for (int k = 0; k < kRows; ++k) {
          for (int part = 0; part < parts; ++part) {
            dot +=
                element(operands.x, tile / 2, m, parts * k + part) * element(operands.y, tile % 2, k, parts * n + part);
          }
        }
        const std::size_t at =
            static_cast<std::size_t>(tile * kernels::kTileBytes + m * kernels::kTileRowBytes + 4 * n);
        if (product == TileProduct::kBf16) {
          float sum;
          std::memcpy(&sum, &operands.sums[at], sizeof(sum));
          total += sum + static_cast<double>(iterations) * dot;
        } else {
          int32_t sum;
          std::memcpy(&sum, &operands.sums[at], sizeof(sum));
          total += Wrapped(sum + static_cast<double>(iterations) * dot);
        }
      }
    }
  }
  return total;
}

template <typename Tiles, TileProduct kProduct>
void ExpectTileLoop() {
  for (const int64_t iterations : {0, 1, 2, 5, 100}) {
    // fp32 sums of up to 100 x 5 (32 products of either sign, each below 0.81), in 1,024 elements.
    const double tolerance =
        kProduct == TileProduct::kInt8 ? 0 : 1e-6 * kTileSums * kernels::kTileRows * kernels::kTileColumns * 5;
    EXPECT_NEAR((TileLoop<Tiles, kProduct>(iterations)), ExpectedOfTiles(kProduct, iterations),
                tolerance * static_cast<double>(1 + iterations))
        << iterations << " iterations";
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
