// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/int4_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "lib/kernels/operators/products/int8_tiles.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/products/int4_testing.h"

namespace roofbench::kernels {
namespace {

// Guard elements after a result, which must stay unchanged.
constexpr int64_t kGuards = 32;

struct Product {
  Product(int64_t rows_of_x, int64_t rows, int64_t columns, int64_t columns_a_scale)
      : m(rows_of_x), n(rows), k(columns), group(columns_a_scale) {
    // Rows of x of different sizes.
    for (int64_t i = 0; i < m * k; ++i) x[Size(i)] = ToBf16(ToFloat(x[Size(i)]) * static_cast<float>(1 + i / k % 7));
    Quantize();
  }

  // Weights whose middle is not 0, in groups of different sizes.
  std::vector<float> Weights() const {
    std::vector<float> w = Normal<float>(n * k, 0.5, 1, 2);
    for (int64_t i = 0; i < n * k; ++i) w[Size(i)] *= static_cast<float>(1 + i / group % 3);
    return w;
  }
  void Quantize() {
    activations.Select(x.data(), m, k, 0, SerialFor());
    activations.Quantize(x.data(), SerialFor(), group);
  }
  void Run(const ParallelFor& parallel_for = SerialFor()) {
    const int64_t middle = n / 2 / kInt4TileRows * kInt4TileRows;
    const Int4Product<float> work{.weight = packed.weight, .activations = &activations, .y = y.data()};
    for (const Range rows : {Range{0, middle}, Range{middle, n}}) RunRows(work, rows);
    kernels::Run(Int4Product<Bf16>{.weight = packed.weight, .activations = &activations, .y = rounded.data()},
                 parallel_for);
  }

  // In double precision, from the integers that x became and the weights that the format represents.
  void ExpectItsFormula() const {
    for (int64_t i = 0; i < m; ++i) {
      const double step = static_cast<double>(activations.row_max()[i]) / 127;
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        double size = 0;
        for (int64_t c = 0; c < k; ++c) {
          const double term = step * activations.row(i)[c] * Dequantize(packed.weight, j, c);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(y[Size(i * n + j)], sum, 2e-6 * size) << i << " " << j;
        ASSERT_NEAR(ToFloat(rounded[Size(i * n + j)]), sum, kRounding<Bf16> * std::abs(sum) + 2e-6 * size)
            << i << " " << j;
      }
    }
    EXPECT_EQ(std::count(y.end() - kGuards, y.end(), 7), kGuards);
    EXPECT_EQ(std::count(rounded.end() - kGuards, rounded.end(), ToBf16(7)), kGuards);
  }

  int64_t m;
  int64_t n;
  int64_t k;
  int64_t group;
  std::vector<Bf16> x = Normal<Bf16>(m * k, 0.25, 1, 1);
  PackedInt4 packed = PackedInt4(Weights(), 1, n, k, group);
  Int8Activations activations = {};
  std::vector<float> y = std::vector<float>(Size(m * n + kGuards), 7);
  std::vector<Bf16> rounded = std::vector<Bf16>(Size(m * n + kGuards), ToBf16(7));
};

// Rows of x that fill a group of registers and rows that do not; weights of one tile, two tiles, and partial tiles.
TEST(Int4Product, EqualsItsFormulaOnEveryIsa) {
  OnEveryIsaAndTiles([] {
    for (const auto& [m, n, k, group] : {std::array<int64_t, 4>{1, 16, 32, 32},
                                         {1, 96, 512, 64},
                                         {5, 37, 128, 32},
                                         {6, 33, 256, 256},
                                         {7, 48, 256, 128},
                                         {13, 80, 192, 64},
                                         {25, 17, 64, 32},
                                         {31, 80, 192, 64}}) {
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " by " << group);
      Product product(m, n, k, group);
      product.Run();
      product.ExpectItsFormula();
    }
  });
}

// The largest of both sides in every column of the longest group.
TEST(Int4Product, SumsOfTheLargestProductsAreExact) {
  OnEveryIsa([] {
    Product product(2, 16, 4096, 256);
    std::ranges::fill(product.x, ToBf16(-3));
    std::ranges::fill(product.packed.q, 15);
    for (std::size_t i = 0; i < product.packed.scales_zeros.size(); i += 2) {
      product.packed.scales_zeros[i] = ToBf16(0.5);
      product.packed.scales_zeros[i + 1] = ToBf16(0);
    }
    product.packed.Pack();
    product.Quantize();
    product.Run();
    EXPECT_NEAR(product.y[0], -3 * 7 * 0.5 * 4096, 0.01);
    EXPECT_NEAR(product.y[31], -3 * 7 * 0.5 * 4096, 0.01);
  });
}

// Row counts that use packed tiles, and row counts large enough that tiles are unpacked.
TEST(Int4Product, ARowIsWhatItIsAloneAndThreadsShareTheWork) {
  OnEveryIsaAndTiles([] {
    Product many(31, 80, 128, 64);
    many.Run(ThreadPool(3));
    for (const int64_t row : {0, 5, 13, 30}) {
      Product one(1, 80, 128, 64);
      std::copy_n(many.x.begin() + row * 128, 128, one.x.begin());
      one.Quantize();
      one.Run();
      EXPECT_TRUE(std::equal(one.y.begin(), one.y.end() - kGuards, many.y.begin() + row * 80)) << row;
      EXPECT_TRUE(std::equal(one.rounded.begin(), one.rounded.end() - kGuards, many.rounded.begin() + row * 80)) << row;
    }
  });
}

// Rows of x that fill one or two tiles, wholly or by half, and others, which take vectors; of every group, for an odd
// number of rows of the weight. On a processor with tiles, Int4Product has them in the tests above.
TEST(Int4ProductTiles, EmulatedEqualsItsFormula) {
  for (const int64_t group : {32, 64, 128, 256}) {
    for (const int64_t m : {1, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 47, 48, 65}) {
      SCOPED_TRACE(testing::Message() << m << " rows by " << group);
      Product product(m, 49, 3 * group, group);
      Product vectors = product;
      vectors.Run();
      for (const Range rows : {Range{0, 16}, Range{16, 49}}) {
        RunRowsByTiles(
            Int4Product<float>{
                .weight = product.packed.weight, .activations = &product.activations, .y = product.y.data()},
            rows, SumInt4GroupsByTiles<EmulatedTiles>);
        RunRowsByTiles(
            Int4Product<Bf16>{
                .weight = product.packed.weight, .activations = &product.activations, .y = product.rounded.data()},
            rows, SumInt4GroupsByTiles<EmulatedTiles>);
      }
      product.ExpectItsFormula();
      EXPECT_EQ(product.y, vectors.y);  // to the bit
    }
  }
}

TEST(Int4Product, NeedsActivationsThatWereSummedByItsGroups) {
  Product product(2, 16, 128, 64);
  product.activations.Quantize(product.x.data(), SerialFor(), 32);
  EXPECT_THROW(product.Run(), std::logic_error);
}

TEST(Int4Product, AnInfiniteRowIsNotFinite) {
  OnEveryIsa([] {
    Product product(2, 16, 32, 32);
    product.x[3] = FromDouble<Bf16>(kInfinity);
    product.Quantize();
    product.Run();
    EXPECT_FALSE(std::isfinite(product.y[0]));
    EXPECT_FALSE(std::isfinite(ToFloat(product.rounded[0])));
    EXPECT_TRUE(std::isfinite(product.y[16]));
  });
}

}  // namespace
}  // namespace roofbench::kernels
