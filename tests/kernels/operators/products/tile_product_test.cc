// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/kernels/simd/split_mix.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

struct Shape {
  int64_t m, n, k;
};

// Full and partial tiles, panels, chunks and slabs of every operand; one row, one column, an odd number of elements.
constexpr Shape kShapes[] = {{3, 40, 0},   {1, 1, 1},     {16, 16, 32},   {33, 31, 65},  {17, 70, 3},
                             {70, 17, 40}, {40, 300, 97}, {260, 1, 3},    {33, 33, 600}, {1, 1, 1100},
                             {5, 257, 65}, {64, 32, 512}, {64, 48, 1056}, {33, 97, 700}};

template <TileProduct kProduct>
TileFactor<kProduct> Draw(SplitMix64& random) {
  if constexpr (kProduct == TileProduct::kBf16) {
    return ToBf16(static_cast<float>(random() >> 40) * 0x1p-23F - 1);
  } else if constexpr (kProduct == TileProduct::kFp32) {
    return static_cast<float>(random() >> 40) * 0x1p-23F - 1;
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
  PackTileColumns(std::as_bytes(std::span(w)).data(), shape.n, row_bytes, row_bytes, packed.data(), parallel);
  std::vector<TileResult<kProduct>> y(Size(shape.m * shape.n) + 1);
  const auto beyond = y.back();
  const TiledProduct<Tiles, kProduct> product = {
      .x = x.data(), .w = packed.data(), .output = {y.data(), shape.n}, .m = shape.m, .n = shape.n, .k = shape.k};
  product(parallel);
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double exact = 0;
      double norm = 0;
      for (int64_t c = 0; c < shape.k; ++c) {
        double term = 0;
        if constexpr (std::is_same_v<TileSum<kProduct>, float>) {
          term = double{ToFloat(x[Size(i * shape.k + c)])} * ToFloat(w[Size(j * shape.k + c)]);
        } else {
          term = x[Size(i * shape.k + c)] * w[Size(j * shape.k + c)];
        }
        exact += term;
        norm += std::abs(term);
      }
      if constexpr (std::is_same_v<TileSum<kProduct>, float>) {
        const double half_unit = kProduct == TileProduct::kBf16 ? 0x1p-8 : 0x1p-23;
        ASSERT_NEAR(ToFloat(y[Size(i * shape.n + j)]), exact, std::abs(exact) * half_unit + norm * 0x1p-20)
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
      const auto expect = [&]<TileProduct kProduct>() {
        if (std::is_same_v<Tiles, VectorTiles> && !IsaHas(VectorsFor(kProduct))) return;
        ExpectProduct<Tiles, kProduct>(shape, *parallel);
      };
      expect.template operator()<TileProduct::kBf16>();
      expect.template operator()<TileProduct::kInt8>();
      if constexpr (!std::is_same_v<Tiles, HardwareTiles>) expect.template operator()<TileProduct::kFp32>();
    }
  }
}

TEST(TileProduct, EmulatedEqualsPlainLoops) { ExpectProducts<EmulatedTiles>(); }

TEST(TileProduct, VectorsEqualPlainLoops) {
#if ROOFBENCH_X86
  ExpectProducts<VectorTiles>();
#endif
}

TEST(TileProduct, HardwareEqualsPlainLoops) {
#if ROOFBENCH_X86
  const TrappedTiles trapped;
  if (!HasTileRegisters(TileProduct::kBf16) || !HasTileRegisters(TileProduct::kInt8)) GTEST_SKIP() << kNoTiles;
  ExpectProducts<HardwareTiles>();
#else
  GTEST_SKIP() << kNoTiles;
#endif
}

// A number of rows of x that fills no, some and all tiles and panels; rows and elements of w that are multiples of
// nothing, and of everything.
constexpr Shape kLinears[] = {{1, 1, 1},
                              {1, 40, 70},
                              {8, 40, 70},
                              {9, 33, 31},
                              {15, 33, 31},
                              {16, 16, 32},
                              {17, 31, 97},
                              {31, 65, 63},
                              {32, 32, 64},
                              {33, 17, 33},
                              {48, 50, 515},
                              {65, 20, 550},
                              {17, 290, 35},
                              {270, 40, 33},
                              {97, 33, 288},
                              // Few columns of a vector: with and without rows of zeros, and several chunks.
                              {2, 33, 97},
                              {3, 40, 64},
                              {4, 35, 1},
                              {5, 64, 130},
                              {7, 34, 96},
                              {2, 32, 9000},
                              {8, 33, 8800}};

struct LinearOperands {
  explicit LinearOperands(const Shape& shape, const TileLinearKernels& kernels = kTileLinearKernels<EmulatedTiles>)
      : x(Size(shape.m * shape.k)), w(Size(shape.n * shape.k)), bias(Size(shape.n)) {
    SplitMix64 random;
    for (std::vector<Bf16>* operand : {&x, &w, &bias}) {
      std::ranges::generate(*operand, [&] { return Draw<TileProduct::kBf16>(random); });
    }
    const int64_t row_bytes = shape.k * static_cast<int64_t>(sizeof(Bf16));
    packed.assign(Size(PanelBytes(shape.m, TileSteps(row_bytes))), std::byte{0x7f});
    kernels.pack(x.data(), shape.m, shape.k, packed.data(), SerialFor());
  }
  std::vector<Bf16> x, w, bias;
  std::vector<std::byte> packed;
};

template <typename Y>
void ExpectLinear(const Shape& shape, const LinearOperands& in, bool has_bias, const std::vector<Y>& y, Range columns) {
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      double exact = has_bias ? ToFloat(in.bias[Size(j)]) : 0;
      double norm = std::abs(exact);
      for (int64_t c = 0; c < shape.k; ++c) {
        const double term = double{ToFloat(in.x[Size(i * shape.k + c)])} * ToFloat(in.w[Size(j * shape.k + c)]);
        exact += term;
        norm += std::abs(term);
      }
      ExpectClose(y[Size(i * shape.n + j)], exact, kRounding<Y>, norm * 0x1p-20 / kRounding<Y>,
                  [&] { return testing::Message() << i << ", " << j; });
    }
  }
}

template <typename Tiles>
void ExpectLinears() {
  const ThreadPool pool(3);
  for (const Shape& shape : kLinears) {
    SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    const LinearOperands in(shape, kTileLinearKernels<Tiles>);
    for (const bool has_bias : {false, true}) {
      std::vector<Bf16> y(Size(shape.m * shape.n) + 1);
      y.back() = ToBf16(7);
      kTileLinearKernels<Tiles>.run({.x = in.packed.data(),
                                     .w = in.w.data(),
                                     .bias = has_bias ? in.bias.data() : nullptr,
                                     .y = y.data(),
                                     .m = shape.m,
                                     .n = shape.n,
                                     .k = shape.k},
                                    pool);
      ExpectLinear(shape, in, has_bias, y, {0, shape.n});
      EXPECT_EQ(ToFloat(y.back()), 7);
    }
    // From any column on; the others stay.
    constexpr float kOther = 7;
    std::vector<float> y(Size(shape.m * shape.n), kOther);
    const Range columns = {shape.n / 3, shape.n - shape.n / 5};
    kTileLinearKernels<Tiles>.run_columns_to_floats(
        {.x = in.packed.data(), .w = in.w.data(), .y = y.data(), .m = shape.m, .n = shape.n, .k = shape.k}, columns);
    ExpectLinear(shape, in, false, y, columns);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % shape.n;
      if (column < columns.begin || column >= columns.end) {
        EXPECT_EQ(y[i], kOther) << i;
      }
    }
  }
}

TEST(TileLinear, EmulatedEqualsPlainLoops) {
  OnEveryIsaBesideEmulatedTiles([] { ExpectLinears<EmulatedTiles>(); });
}

// A thread keeps its buffers, whose tails would turn zeros into NaN.
TEST(TileLinear, ReadsNothingOfAnotherProduct) {
  for (const Shape& shape : {Shape{1, 32, 1024}, Shape{1, 32, 33}}) {
    LinearOperands in(shape);
    if (shape.k > 33) std::ranges::fill(in.w, FromDouble<Bf16>(kNan));
    std::vector<float> y(Size(shape.n));
    kTileLinearKernels<EmulatedTiles>.run_columns_to_floats(
        {.x = in.packed.data(), .w = in.w.data(), .y = y.data(), .m = 1, .n = shape.n, .k = shape.k}, {0, shape.n});
    if (shape.k == 33) ExpectLinear(shape, in, false, y, {0, shape.n});
  }
}

// Rows and columns exchanged.
std::vector<Bf16> Turned(const std::vector<Bf16>& x, int64_t rows) {
  const auto columns = static_cast<int64_t>(x.size()) / rows;
  std::vector<Bf16> y(x.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) y[Size(j * rows + i)] = x[Size(i * columns + j)];
  }
  return y;
}

// x · w, where w lies as [k, n].
template <typename Y>
std::vector<Y> Multiplied(void (*kernel)(const TileMatmul<Y>&, const ParallelFor&), const Shape& shape,
                          const std::vector<Bf16>& x, bool x_turned, const std::vector<Bf16>& w) {
  const ThreadPool pool(3);
  // Packing has to write every byte.
  std::vector<std::byte> packed(Size(PanelBytes(shape.n, CeilDiv(shape.k, kPanelRows))), std::byte{0xff});
  PackTurnedTileColumns(w.data(), shape.k, shape.n, packed.data(), pool);
  std::vector<Y> y(Size(shape.m * shape.n) + 1);
  y.back() = FromDouble<Y>(7);
  kernel({.x = x.data(),
          .w = packed.data(),
          .y = y.data(),
          .m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .x_turned = x_turned},
         pool);
  EXPECT_EQ(ToFloat(y.back()), 7);
  return y;
}

template <typename Tiles>
void ExpectMatmuls() {
  const TileLinearKernels& kernels = kTileLinearKernels<Tiles>;
  for (const Shape& shape : kLinears) {
    const LinearOperands in(shape);
    const std::vector<Bf16> w = Turned(in.w, shape.n);
    for (const bool x_turned : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << ", turned " << x_turned);
      // A thread keeps its buffers, whose tails would turn zeros into NaN.
      const Shape before = {96, 1, 512};
      const std::vector<Bf16> nans(Size(before.m * before.k), FromDouble<Bf16>(kNan));
      Multiplied(kernels.matmul, before, nans, x_turned, nans);
      const std::vector<Bf16> x = x_turned ? Turned(in.x, shape.m) : in.x;
      ExpectLinear(shape, in, false, Multiplied(kernels.matmul, shape, x, x_turned, w), {0, shape.n});
      ExpectLinear(shape, in, false, Multiplied(kernels.matmul_to_floats, shape, x, x_turned, w), {0, shape.n});
    }
  }
}

TEST(TileMatmul, EmulatedEqualsPlainLoops) {
  OnEveryIsaBesideEmulatedTiles([] { ExpectMatmuls<EmulatedTiles>(); });
}

TEST(TileLinear, VectorsEqualPlainLoops) {
#if ROOFBENCH_X86
  if (!IsaHas(VectorsFor(TileProduct::kBf16))) GTEST_SKIP() << "this processor has no bf16 dot product";
  ExpectLinears<VectorTiles>();
  ExpectMatmuls<VectorTiles>();
#endif
}

TEST(TileLinear, HardwareEqualsPlainLoops) {
  const TrappedTiles trapped;
  const TileLinearKernels* const here = TileLinearKernelsHere();
  EXPECT_EQ(here != nullptr, HasTiles(TileProduct::kBf16));
#if ROOFBENCH_X86
  if (!HasTileRegisters(TileProduct::kBf16)) GTEST_SKIP() << kNoTiles;
  EXPECT_EQ(here, &kTileLinearKernels<HardwareTiles>);
  ExpectLinears<HardwareTiles>();
  ExpectMatmuls<HardwareTiles>();
#else
  GTEST_SKIP() << kNoTiles;
#endif
}

// x[i, c] = (i % period - period / 2) · s, where s is the sign that all factors have in column c.
int8_t PeriodicFactor(int64_t row, int64_t period) { return static_cast<int8_t>(row % period - period / 2); }
std::vector<int8_t> PeriodicRows(int64_t rows, int64_t columns, int64_t period) {
  std::vector<int8_t> made;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) {
      const int sign = c % 3 == 0 ? -1 : 1;
      made.push_back(static_cast<int8_t>(sign * PeriodicFactor(i, period)));
    }
  }
  return made;
}

// Rows that take two chunks of packed columns, for which several panels of them keep their sums.
TEST(TileProduct, LongRowsTakeSeveralChunks) {
  const int64_t m = 290;
  const int64_t n = 193;
  const int64_t k = 5500;
  const TileBlocks blocks(m, n, TileSteps(k), 1);
  ASSERT_GT(blocks.row_panels, 1);
  ASSERT_LT(blocks.steps, TileSteps(k));
  const std::vector<int8_t> x = PeriodicRows(m, k, 7);
  const std::vector<int8_t> w = PeriodicRows(n, k, 5);
  std::vector<std::byte> packed(Size(PanelBytes(n, TileSteps(k))), std::byte{0x7f});
  PackTileColumns(std::as_bytes(std::span(w)).data(), n, k, k, packed.data(), SerialFor());
  std::vector<int32_t> y(Size(m * n));
  const TiledProduct<EmulatedTiles, TileProduct::kInt8> product = {
      .x = x.data(), .w = packed.data(), .output = {y.data(), n}, .m = m, .n = n, .k = k};
  product(SerialFor());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(y[Size(i * n + j)], k * PeriodicFactor(i, 7) * PeriodicFactor(j, 5)) << i << ", " << j;
    }
  }
}

TEST(TileProduct, BlocksAreEnoughForAllThreads) {
  constexpr int64_t kSteps = 142;  // of a chunk of four panels, with the sums of one panel of rows
  EXPECT_EQ(TileBlocks(4096, 128, kSteps, 2).steps, kSteps);
  EXPECT_EQ(TileBlocks(4096, 128, kSteps, 2).row_panels, 1);
  EXPECT_EQ(TileBlocks(4096, 4096, 64, 2).count, 128 * 16);
  // Longer rows keep the sums of several panels, and fewer of them for more threads.
  EXPECT_EQ(TileBlocks(4096, 128, kSteps + 1, 2).row_panels, 16);
  EXPECT_EQ(TileBlocks(4096, 128, kSteps + 1, 2).steps, 112);
  EXPECT_EQ(TileBlocks(4096, 128, kSteps + 1, 2).count, 8);
  EXPECT_EQ(TileBlocks(4096, 128, kSteps + 1, 4).row_panels, 8);
  EXPECT_EQ(TileBlocks(4096, 64, 1000, 4).row_panels, 8);
  // Few rows share out the columns.
  EXPECT_EQ(TileBlocks(32, 256, 16, 2).panels, 1);
  EXPECT_EQ(TileBlocks(1, 40, 1, 2).count, 2);
}

// Every chunk leaves two fifths of an L2 of 2 MiB.
TEST(TileProduct, ChunksFitACache) {
  for (int64_t n = 1; n <= 2048; n += 31) {
    for (const int64_t row_steps : {1, 46, 47, 128, 767, 768, 2000}) {
      const TileBlocks blocks(4096, n, row_steps, 1);
      ASSERT_GT(blocks.steps, 0);
      const int64_t sums = blocks.row_panels * blocks.panels * kPanelSums * int64_t{sizeof(float)};
      EXPECT_LE(blocks.panels * std::min(row_steps, blocks.steps) * kPanelStepBytes + sums, (int64_t{2} << 20) * 3 / 5)
          << n << " columns, " << row_steps << " steps";
    }
  }
}

// A matrix of y, larger than what is stored.
constexpr int64_t kWidth = 40;
template <typename Y>
const Y kUntouched = Y{77};
template <>
const Bf16 kUntouched<Bf16> = ToBf16(77);

// Each part of a panel is stored as `element(sum, row)` in every way that this processor has. `turned`: rows of y are
// columns of the sums.
template <typename Y, typename Sum, typename Store, typename Element>
void ExpectStored(bool turned, Store store, Element element) {
  std::vector<Sum> sums(Size(kPanelSums));
  SplitMix64 random;
  for (Sum& sum : sums) sum = static_cast<Sum>(static_cast<float>(random() >> 40) * 0x1p-10F - 8192);
  for (const uint32_t isa : {~uint32_t{0}, uint32_t{0}}) {
    const LimitIsa limit(isa);
    for (const int64_t rows : {1, 15, 16, 17, 32}) {
      for (const int64_t columns : {1, 15, 16, 17, 31, 32}) {
        std::vector<Y> y(Size(kWidth * kWidth), kUntouched<Y>);
        store(sums.data(), rows, columns, y.data());
        for (int64_t i = 0; i < kWidth * kWidth; ++i) {
          const int64_t row = turned ? i % kWidth : i / kWidth;
          const int64_t column = turned ? i / kWidth : i % kWidth;
          const bool is_stored = row < rows && column < columns;
          ASSERT_EQ(y[Size(i)], is_stored ? element(sums[Size(PanelSum(row, column))], row) : kUntouched<Y>)
              << rows << " x " << columns << ": " << row << ", " << column;
        }
      }
    }
  }
}

TEST(TileProduct, StoresTheSameInEveryVariant) {
  std::vector<Bf16> bias;
  for (int i = 0; i < kPanelRows; ++i) bias.push_back(ToBf16(static_cast<float>(100 * i - 1000)));
  const auto biased = [&](float sum, int64_t row) { return sum + ToFloat(bias[Size(row)]); };
  ExpectStored<Bf16, float>(
      false,
      [](const float* sums, int64_t rows, int64_t columns, Bf16* y) { StorePanel(sums, rows, columns, y, kWidth); },
      [](float sum, int64_t) { return ToBf16(sum); });
  ExpectStored<int32_t, int32_t>(
      false,
      [](const int32_t* sums, int64_t rows, int64_t columns, int32_t* y) {
        StorePanel(sums, rows, columns, y, kWidth);
      },
      [](int32_t sum, int64_t) { return sum; });
  ExpectStored<Bf16, float>(
      true,
      [&](const float* sums, int64_t rows, int64_t columns, Bf16* y) {
        StoreTurnedPanel(sums, rows, columns, {.bias = bias.data()}, y, kWidth);
      },
      [&](float sum, int64_t row) { return ToBf16(biased(sum, row)); });
  ExpectStored<float, float>(
      true,
      [&](const float* sums, int64_t rows, int64_t columns, float* y) {
        StoreTurnedPanel(sums, rows, columns, {.bias = bias.data()}, y, kWidth);
      },
      biased);
  ExpectStored<int32_t, int32_t>(
      true,
      [](const int32_t* sums, int64_t rows, int64_t columns, int32_t* y) {
        StoreTurnedPanel(sums, rows, columns, y, kWidth);
      },
      [](int32_t sum, int64_t) { return sum; });
}

}  // namespace
}  // namespace roofbench::kernels
