// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "lib/kernels/operators/products/int8_tiles.h"
#include "lib/kernels/simd/split_mix.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  std::vector<Bf16> x = Normal<Bf16>(m * k, 0, 1, 1);
  std::vector<int8_t> weight = {};
  std::vector<float> row_max = Normal<float>(n, 1, 0.1, 3);
  std::vector<float> y = std::vector<float>(Size(m * n), std::numeric_limits<float>::quiet_NaN());
  std::vector<Bf16> rounded = std::vector<Bf16>(Size(m * n));
  float steps = 127;
  Int8Activations activations = {};

  void Run(float threshold, const ParallelFor& parallel_for = SerialFor()) {
    weight.clear();
    for (const float value : Normal<float>(n * k, 0, 40, 2)) {
      weight.push_back(static_cast<int8_t>(std::clamp(value, -127.0F, 127.0F)));
    }
    if (steps == 1) weight.front() = weight.back() = -128;
    activations.Select(x.data(), m, k, threshold, parallel_for);
    activations.Quantize(x.data(), parallel_for);
    const LlmInt8Weight stored{weight.data(), row_max.data(), n, k, steps};
    const LlmInt8Product<float> work{.weight = stored, .activations = &activations, .y = y.data()};
    for (const Range rows : {Range{0, n / 2}, Range{n / 2, n}}) RunRows(work, rows);
    kernels::Run(LlmInt8Product<Bf16>{.weight = stored, .activations = &activations, .y = rounded.data()},
                 parallel_for);
  }

  // The product in double precision of the values that the algorithm represents.
  double Expected(int64_t row, int64_t column) const {
    double inner = 0;
    double outer = 0;
    std::size_t next = 0;
    const std::vector<int32_t>& outliers = activations.outliers();
    for (int64_t i = 0; i < k; ++i) {
      const double w = weight[Size(column * k + i)];
      if (next < outliers.size() && outliers[next] == i) {
        outer += ToFloat(x[Size(row * k + i)]) * w;
        ++next;
      } else {
        inner += activations.row(row)[i] * w;
      }
    }
    return (inner * activations.row_max()[row] / 127 + outer) * row_max[Size(column)] / steps;
  }

  void ExpectItsFormula() const {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        const double expected = Expected(row, column);
        ExpectClose(y[Size(row * n + column)], expected, 1e-5, 127 / steps, "element");
        ExpectClose(rounded[Size(row * n + column)], expected, kRounding<Bf16>, 0.127 / steps, "rounded element");
      }
    }
  }
};

TEST(LlmInt8, OutliersAreColumnsOfAnyRow) {
  OnEveryIsa([] {
    Product product{.m = 3, .n = 4, .k = 70};
    for (Bf16& value : product.x) value = ToBf16(std::clamp(ToFloat(value), -3.0F, 3.0F));
    product.x[70 + 5] = ToBf16(-6);
    product.x[2 * 70 + 69] = ToBf16(40);
    product.Run(6);
    EXPECT_THAT(product.activations.outliers(), testing::ElementsAre(5, 69));
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(product.activations.row(row)[5], 0);
      EXPECT_LE(product.activations.row_max()[row], 3);
    }
    EXPECT_EQ(product.activations.outlier_values()[2 * 2 + 1], 40);
  });
}

// Alone and next to each other, at both ends of rows that are shorter and longer than a vector.
TEST(LlmInt8, AnyColumnsMayBeOutliers) {
  OnEveryIsaAndTiles([] {
    for (const int64_t k : {1, 5, 16, 17, 40, 100}) {
      const auto last = static_cast<int32_t>(k - 1);
      std::vector<std::vector<int32_t>> sets = {{0}, {last}, {0, last}, {last / 2, last}, {}};
      for (int32_t i = 0; i < last; i += 3) sets.back().push_back(i);
      sets.emplace_back(Size(k));
      std::iota(sets.back().begin(), sets.back().end(), 0);
      for (std::vector<int32_t>& columns : sets) {
        columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
        for (const int64_t m : {1, 2, 6, 7, 8}) {
          SCOPED_TRACE(testing::Message() << m << " x " << k << ": " << testing::PrintToString(columns));
          Product product{.m = m, .n = 11, .k = k};
          for (Bf16& value : product.x) value = ToBf16(std::clamp(ToFloat(value), -3.0F, 3.0F));
          for (const int32_t column : columns) {
            for (int64_t row = column % m; row < m; row += 2) product.x[Size(row * k + column)] = ToBf16(-9.5F);
          }
          product.Run(6);
          EXPECT_EQ(product.activations.outliers(), columns);
          product.ExpectItsFormula();
        }
      }
    }
  });
}

// As few, by columns of tiles, and by panels: rows of x that fill none of them, and rows of the weight for more than
// one block.
TEST(LlmInt8, AnyNumberOfRows) {
  for (const int64_t m : {2, 5, 9, 16, 70, 127, 128, 150}) {
    for (const int64_t n : {33, 300}) {
      SCOPED_TRACE(testing::Message() << m << " x " << n);
      Product product{.m = m, .n = n, .k = 200};
      product.Run(2.5F);
      EXPECT_FALSE(product.activations.outliers().empty());
      product.ExpectItsFormula();
    }
  }
}

// A number that equals the threshold is an outlier, and its next smaller neighbor in bf16 is not; no other rounding
// decides.
TEST(LlmInt8, AThresholdLiesBetweenWholeNumbers) {
  OnEveryIsa([] {
    Product product{.m = 2, .n = 3, .k = 66};
    for (Bf16& value : product.x) value = ToBf16(std::clamp(ToFloat(value), -4.0F, 4.0F));
    product.x[3] = ToBf16(4.46875F);  // the neighbors of 4.5 in bf16
    product.x[40] = ToBf16(-4.5F);
    product.x[66 + 65] = ToBf16(4.53125F);
    product.Run(4.5F);
    EXPECT_THAT(product.activations.outliers(), testing::ElementsAre(40, 65));
    EXPECT_EQ(product.activations.row_max()[0], 4.46875F);
    product.ExpectItsFormula();
  });
}

TEST(LlmInt8, WithoutAThresholdNothingIsAnOutlierAndZerosStayZeros) {
  Product product{.m = 2, .n = 2, .k = 64};
  product.x[3] = ToBf16(100);
  std::fill(product.x.begin() + 64, product.x.end(), ToBf16(0));
  product.Run(0);
  EXPECT_TRUE(product.activations.outliers().empty());
  EXPECT_EQ(product.activations.row_max()[0], 100);
  EXPECT_EQ(product.activations.row(0)[3], 127);
  EXPECT_EQ(product.y[2], 0);
}

// To the integer: halves go to the even one, as upstream's do.
TEST(LlmInt8, RoundsHalvesToEvenOnEveryIsa) {
  OnEveryIsa([] {
    Product product{.m = 1, .n = 1, .k = 5};
    constexpr std::array<float, 5> kX = {127, 0.5F, 1.5F, -2.5F, -126.5F};  // bf16 holds them all
    std::transform(kX.begin(), kX.end(), product.x.begin(), ToBf16);
    product.Run(0);
    const int8_t* const row = product.activations.row(0);
    EXPECT_THAT(std::vector<int>(row, row + 5), testing::ElementsAre(127, 0, 2, -2, -126));
    EXPECT_EQ(product.activations.sums()[0], 1);
  });
}

// One row and several, few enough to be multiplied in place and so many that the weight is packed, with rows and
// columns that do not fill a tile. Of both kinds of weight: those with a scale per row (steps 1) reach to -128, which
// 128 more makes 0.
TEST(LlmInt8, EqualsItsFormulaOnEveryIsa) {
  OnEveryIsaAndTiles([] {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 5, 64},
                                  {1, 131, 70},
                                  {2, 70, 257},
                                  {4, 2, 1000},
                                  {5, 9, 63},
                                  {13, 67, 130},
                                  {16, 66, 128},
                                  {29, 101, 67},
                                  {97, 40, 96},
                                  {100, 34, 260},
                                  {1, 2, 4096},
                                  {40, 3, 1}}) {
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
      for (const float steps : {127.0F, 1.0F}) {
        Product product{.m = m, .n = n, .k = k, .steps = steps};
        product.x[Size(k / 2)] = ToBf16(9);
        for (const float threshold : {3.0F, 0.0F}) {
          product.Run(threshold);
          EXPECT_EQ(product.activations.outliers().empty(), threshold == 0);
          product.ExpectItsFormula();
        }
      }
    }
  });
}

// Each row has its own scale, and its sums are exact: adjacent rows do not change them.
TEST(LlmInt8, WithoutAThresholdARowIsWhatItIsAlone) {
  OnEveryIsaAndTiles([] {
    Product many{.m = 37, .n = 70, .k = 130, .steps = 1};
    for (std::size_t i = 0; i < many.x.size(); ++i)
      many.x[i] = ToBf16(ToFloat(many.x[i]) * static_cast<float>(1 + i / 130));
    many.Run(0);
    for (const int64_t row : {0, 11, 12, 36}) {
      Product one{.m = 1, .n = 70, .k = 130, .steps = 1};
      std::copy_n(many.x.begin() + row * 130, 130, one.x.begin());
      one.Run(0);
      EXPECT_TRUE(std::equal(one.y.begin(), one.y.end(), many.y.begin() + row * 70)) << row;
    }
  });
}

// Extremes of both operands: the offset that 8-bit dot products add to keep one side unsigned must not overflow.
TEST(LlmInt8, SumsOfTheLargestProductsAreExact) {
  OnEveryIsaAndTiles([] {
    for (const int64_t m : {1, 20}) {
      Product product{.m = m, .n = 3, .k = 14336};
      std::ranges::fill(product.x, ToBf16(2));
      product.Run(0);
      std::fill(product.weight.begin(), product.weight.end(), int8_t{127});
      RunRows(LlmInt8Product<float>{.weight = {product.weight.data(), product.row_max.data(), 3, product.k},
                                    .activations = &product.activations,
                                    .y = product.y.data()},
              {0, 3});
      const double largest = 127.0 * 127 * 14336 * 2 / 127 / 127;
      EXPECT_NEAR(product.y[0], largest * product.row_max[0], 1e-6 * largest);
    }
  });
}

TEST(LlmInt8, ThreadsShareTheWork) {
  Product one{.m = 70, .n = 130, .k = 200};
  Product shared = one;
  one.Run(2.5F);
  shared.Run(2.5F, ThreadPool(3));
  EXPECT_FALSE(one.activations.outliers().empty());
  EXPECT_EQ(one.activations.outliers(), shared.activations.outliers());
  EXPECT_EQ(one.y, shared.y);
  EXPECT_EQ(one.rounded, shared.rounded);
}

// An x after a larger one: padding of rows must not hold old values. And one after an x of few rows, whose outliers
// are multiplied in another way.
TEST(LlmInt8, MemoryIsUsedAgain) {
  OnEveryIsaAndTiles([] {
    Product large{.m = 30, .n = 5, .k = 300};
    large.Run(3);
    Product small{.m = 2, .n = 5, .k = 33};
    small.activations = large.activations;
    small.Run(3);
    small.ExpectItsFormula();
    large.activations = small.activations;
    large.Run(3);
    large.ExpectItsFormula();
  });
}

// Found by fuzzing: infinite activations, and those whose reciprocal is infinite, became integers of 32 bits whose sum
// overflowed.
TEST(LlmInt8, ARowOfExtremesIsQuantizedWithinItsRange) {
  OnEveryIsa([] {
    for (const float extreme : {std::numeric_limits<float>::infinity(), 1e-38F, 3e38F}) {
      Product product{.m = 1, .n = 2, .k = 70};
      std::ranges::fill(product.x, ToBf16(extreme));
      product.x[7] = ToBf16(0);
      product.x[8] = ToBf16(-extreme);
      product.Run(0);
      int64_t sum = 0;
      const int8_t* const row = product.activations.row(0);
      for (int64_t i = 0; i < product.k; ++i) {
        EXPECT_GE(row[i], -127) << extreme;
        sum += row[i];
      }
      EXPECT_EQ(product.activations.sums()[0], sum) << extreme;
      EXPECT_EQ(std::isfinite(product.activations.row_max()[0]), std::isfinite(extreme));
      if (std::isinf(extreme)) {
        EXPECT_FALSE(std::isfinite(product.y[0]));  // so that a check detects it
      } else {
        EXPECT_EQ(row[7], 0) << extreme;
        EXPECT_LT(row[8], 0) << extreme;
      }
    }
  });
}

// On a processor with tiles, LlmInt8 has them in the tests above, too.
TEST(LlmInt8Tiles, EmulatedEqualsPlainLoops) {
  OnEveryIsaBesideEmulatedTiles([] {
    // Rows of the weight and of x that fill tiles and panels, and that do not; one and several slabs of columns.
    for (const int64_t rows : {1, 16, 37, 64}) {
      for (const int64_t k : {1, 64, 200, 1100}) {
        for (const int64_t m : {8, 15, 17, 32, 50}) {
          SCOPED_TRACE(testing::Message() << m << " x " << rows << " x " << k);
          const int64_t stride = RoundUp(k, kLineBytes) + kLineBytes;
          const int64_t width = rows + 3;
          SplitMix64 random;
          const auto draw = [&] { return static_cast<int8_t>(random()); };
          std::vector<int8_t> w(Size(rows * k));
          std::ranges::generate(w, draw);
          std::vector<int8_t> x(Size(m * stride));
          for (int64_t i = 0; i < m; ++i) std::generate_n(x.begin() + i * stride, k, draw);
          std::vector<std::byte> columns(Size(PanelBytes(m, TileSteps(k))), std::byte{0x7f});
          PackTileColumns(std::as_bytes(std::span(x)).data(), m, stride, k, columns.data(), SerialFor());
          constexpr int32_t kOther = 7;
          std::vector<int32_t> products(Size(m * width), kOther);
          MultiplyInt8ByTiles<EmulatedTiles>({.w = w.data(),
                                              .rows = rows,
                                              .k = k,
                                              .tile_columns = columns.data(),
                                              .m = m,
                                              .products = products.data(),
                                              .width = width});
          for (int64_t i = 0; i < m * width; ++i) {
            const int64_t row = i % width;
            const auto of_x = x.begin() + i / width * stride;
            const int32_t sum = row < rows ? std::inner_product(of_x, of_x + k, w.begin() + row * k, 0) : kOther;
            ASSERT_EQ(products[Size(i)], sum) << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
