// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/split_mix.h"
#include "tests/kernels/simd/trapped_tiles.h"

namespace roofbench::kernels {
namespace {

using Bytes = std::vector<std::byte>;

// Rows of a tile, `stride` bytes apart.
constexpr int64_t kStride = 3 * kTileRowBytes;
Bytes Rows() { return Bytes(static_cast<std::size_t>(kTileRows * kStride)); }

Bytes RandomRows(SplitMix64& random) {
  Bytes rows = Rows();
  std::ranges::generate(rows, [&] { return static_cast<std::byte>(random()); });
  return rows;
}

void SetBf16(Bytes& rows, int row, int index, float value) {
  const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  std::memcpy(&rows[static_cast<std::size_t>(row * kStride + 2 * index)], &half, sizeof(half));
}

void SetFp32(Bytes& rows, int row, int column, float value) {
  std::memcpy(&rows[static_cast<std::size_t>(row * kStride + 4 * column)], &value, sizeof(value));
}

template <typename T>
T At(const Bytes& rows, int row, int column) {
  T value;
  std::memcpy(&value, &rows[static_cast<std::size_t>(row * kStride + 4 * column)], sizeof(value));
  return value;
}

template <typename Tiles, TileProduct kProduct>
Bytes Product(const Bytes& sums, const Bytes& x, const Bytes& y) {
  Tiles tiles;
  tiles.template Load<2>(sums.data(), kStride);
  tiles.template Load<5>(x.data(), kStride);
  tiles.template Load<7>(y.data(), kStride);
  tiles.template MultiplyAdd<kProduct, 2, 5, 7>();
  Bytes result = Rows();
  tiles.template Store<2>(result.data(), kStride);
  return result;
}

// An 8-bit product, whose y is of OfY, against plain loops, for every row and column.
template <typename Tiles, TileProduct kProduct, typename OfY>
void ExpectInt8Product(SplitMix64& random) {
  const Bytes sums = RandomRows(random);
  const Bytes x = RandomRows(random);
  const Bytes y = RandomRows(random);
  const Bytes result = Product<Tiles, kProduct>(sums, x, y);
  for (int m = 0; m < kTileRows; ++m) {
    for (int n = 0; n < kTileColumns; ++n) {
      int64_t sum = At<int32_t>(sums, m, n);
      for (int k = 0; k < 64; ++k) {
        sum += static_cast<int8_t>(x[static_cast<std::size_t>(m * kStride + k)]) *
               static_cast<OfY>(y[static_cast<std::size_t>(k / 4 * kStride + 4 * n + k % 4)]);
      }
      ASSERT_EQ(At<int32_t>(result, m, n), static_cast<int32_t>(static_cast<uint32_t>(sum))) << m << ", " << n;
    }
  }
}

// Each product against plain loops, for every row and column.
template <typename Tiles>
void ExpectProducts() {
  SplitMix64 random;
  ExpectInt8Product<Tiles, TileProduct::kInt8, int8_t>(random);
  ExpectInt8Product<Tiles, TileProduct::kInt8ByUint8, uint8_t>(random);
  Bytes sums = Rows();
  Bytes x = Rows();
  Bytes y = Rows();
  std::array<std::array<float, 32>, 16> factors{};
  std::array<std::array<float, 16>, 32> others{};
  const auto small = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); };  // products are exact
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < kTileColumns; ++column) SetFp32(sums, row, column, small());
    for (int k = 0; k < 32; ++k) SetBf16(x, row, k, factors.at(row).at(k) = small());
  }
  for (int k = 0; k < 32; ++k) {
    for (int n = 0; n < kTileColumns; ++n) SetBf16(y, k / 2, 2 * n + k % 2, others.at(k).at(n) = small());
  }
  const Bytes result = Product<Tiles, TileProduct::kBf16>(sums, x, y);
  for (int m = 0; m < kTileRows; ++m) {
    for (int n = 0; n < kTileColumns; ++n) {
      float sum = At<float>(sums, m, n);
      for (int k = 0; k < 32; ++k) sum += factors.at(m).at(k) * others.at(k).at(n);
      ASSERT_EQ(At<float>(result, m, n), sum) << m << ", " << n;
    }
  }
}

// Rules of the manual for TDPBF16PS beyond the product: even and odd elements are summed apart, fused, and denormals
// count as zero.
template <typename Tiles>
void ExpectRoundingOfBf16() {
  constexpr float kDenormal = std::numeric_limits<float>::min() / 2;
  Bytes sums = Rows();
  Bytes x = Rows();
  Bytes y = Rows();
  SetFp32(sums, 0, 0, kDenormal);  // and nothing is added: flushed
  SetBf16(x, 1, 0, kDenormal);     // times 2^40: zero, although the product would be normal
  SetBf16(x, 2, 0, 0x1p24F);       // even elements, 2^24 + 1: 1 is lost
  SetBf16(x, 2, 2, 1);
  SetBf16(x, 3, 0, 0x1p24F);  // odd elements, 1 + 1, meet 2^24 as 2, which is not lost
  SetBf16(x, 3, 1, 1);
  SetBf16(x, 3, 3, 1);
  SetBf16(x, 4, 0, 0x1p-100F);  // times 2^-40 makes a denormal, which is flushed
  for (int k = 0; k < 4; ++k) {
    SetBf16(y, k / 2, k % 2, 1);             // column 0
    SetBf16(y, k / 2, 2 + k % 2, 0x1p40F);   // column 1
    SetBf16(y, k / 2, 4 + k % 2, 0x1p-40F);  // column 2
  }
  const Bytes result = Product<Tiles, TileProduct::kBf16>(sums, x, y);
  EXPECT_EQ(At<float>(result, 0, 0), 0);
  EXPECT_EQ(At<float>(result, 1, 1), 0);
  EXPECT_EQ(At<float>(result, 2, 0), 0x1p24F);
  EXPECT_EQ(At<float>(result, 3, 0), 0x1p24F + 2);
  EXPECT_EQ(At<float>(result, 4, 2), 0);
}

TEST(EmulatedTiles, MultiplyAsTheManualSays) {
  ExpectProducts<EmulatedTiles>();
  ExpectRoundingOfBf16<EmulatedTiles>();
}

TEST(HardwareTiles, MultiplyAsTheManualSays) {
#if ROOFBENCH_X86
  const TrappedTiles trapped;
  if (!IsaHas(kAmxBf16 | kAmxInt8)) GTEST_SKIP() << kNoTiles;
  ExpectProducts<HardwareTiles>();
  ExpectRoundingOfBf16<HardwareTiles>();
  // Four times: configured, three loads, a product, a store, released.
  EXPECT_THAT(trapped.executed(), testing::AnyOf(-1, 4 * 7));
#else
  GTEST_SKIP() << kNoTiles;
#endif
}

#if ROOFBENCH_X86 && defined(__linux__)
// As a processor would, for the test above to see a wrong configuration or operand.
TEST(TrappedTilesDeathTest, RefuseWhatTheManualForbids) {
  const TrappedTiles trapped;
  if (trapped.executed() < 0) GTEST_SKIP() << "the processor itself refuses it, or: " << kNoTiles;
  std::array<uint8_t, 64> configuration{};
  const auto load = [&] { asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory"); };
  EXPECT_DEATH(asm volatile("tilezero %tmm0"), "no configuration is loaded");
  load();  // of palette 0, which has no tiles
  EXPECT_DEATH(asm volatile("tilezero %tmm0"), "no configuration is loaded");
  configuration[0] = 2;
  EXPECT_DEATH(load(), "palette is neither 0 nor 1");
  configuration[0] = 1;
  uint8_t& row_bytes = configuration[16];
  uint8_t& rows = configuration[48];
  rows = 8;
  EXPECT_DEATH(load(), "rows or with columns only");
  row_bytes = 65;
  EXPECT_DEATH(load(), "too large");
  row_bytes = 64;
  load();
  asm volatile("tilezero %tmm0");
  EXPECT_DEATH(asm volatile("tilezero %tmm1"), "leaves the tile out");
  for (const std::size_t tile : {1, 2}) configuration[16 + 2 * tile] = configuration[48 + tile] = 16;
  load();
  EXPECT_DEATH(asm volatile("tdpbssd %tmm2, %tmm1, %tmm0"), "sizes of a product's operands differ");
  asm volatile("tilerelease");
  EXPECT_DEATH(asm volatile("tilezero %tmm0"), "no configuration is loaded");
}
#endif

}  // namespace
}  // namespace roofbench::kernels
