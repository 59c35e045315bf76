// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

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
  std::vector<int8_t> quantised = std::vector<int8_t>(static_cast<std::size_t>(m * k));
  std::vector<float> x_max = std::vector<float>(static_cast<std::size_t>(m));
  std::vector<int32_t> sums = std::vector<int32_t>(static_cast<std::size_t>(m));
  std::vector<int32_t> outliers = std::vector<int32_t>(static_cast<std::size_t>(k));
  std::vector<int32_t> products = std::vector<int32_t>(static_cast<std::size_t>(m * n));
  std::vector<float> y = std::vector<float>(static_cast<std::size_t>(m * n));
  LlmInt8Activations activations = {};

  void Run(float threshold) {
    for (const float value : Normal<float>(n * k, 0, 40, 2)) {
      weight.push_back(static_cast<int8_t>(std::clamp(value, -127.0F, 127.0F)));
    }
    activations = {quantised.data(), x_max.data(), sums.data(), outliers.data()};
    SelectOutliers(x.data(), m, k, threshold, activations);
    QuantiseActivations(x.data(), m, k, threshold, activations);
    const LlmInt8Product work{.weight = {weight.data(), row_max.data(), n, k},
                              .activations = &activations,
                              .x = x.data(),
                              .m = m,
                              .products = products.data(),
                              .y = y.data()};
    for (const Range rows : {Range{0, n / 2}, Range{n / 2, n}}) {
      MultiplyRows(work, rows);
      DequantiseRows(work, rows);
      AddOutliers(work, rows);
    }
  }

  // The product in double precision of the values that the algorithm stands for.
  double Expected(int64_t row, int64_t column) const {
    double inner = 0;
    double outer = 0;
    std::size_t next = 0;
    for (int64_t i = 0; i < k; ++i) {
      const double w = weight[static_cast<std::size_t>(column * k + i)];
      if (next < static_cast<std::size_t>(activations.outlier_count) && outliers[next] == i) {
        outer += ToFloat(x[static_cast<std::size_t>(row * k + i)]) * w;
        ++next;
      } else {
        inner += quantised[static_cast<std::size_t>(row * k + i)] * w;
      }
    }
    return (inner * x_max[static_cast<std::size_t>(row)] / 127 + outer) * row_max[static_cast<std::size_t>(column)] /
           127;
  }
};

TEST(LlmInt8, OutliersAreColumnsOfAnyRow) {
  Product product{.m = 3, .n = 4, .k = 70};
  for (Bf16& value : product.x) value = ToBf16(std::clamp(ToFloat(value), -3.0F, 3.0F));
  product.x[70 + 5] = ToBf16(-6);
  product.x[2 * 70 + 69] = ToBf16(40);
  product.Run(6);
  ASSERT_EQ(product.activations.outlier_count, 2);
  EXPECT_EQ(product.outliers[0], 5);
  EXPECT_EQ(product.outliers[1], 69);
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(product.quantised[static_cast<std::size_t>(row * 70 + 5)], 0);
    EXPECT_LE(product.x_max[static_cast<std::size_t>(row)], 3);
  }
}

TEST(LlmInt8, WithoutAThresholdNothingIsAnOutlier) {
  Product product{.m = 1, .n = 2, .k = 64};
  product.x[3] = ToBf16(100);
  product.Run(0);
  EXPECT_EQ(product.activations.outlier_count, 0);
  EXPECT_EQ(product.x_max[0], 100);
  EXPECT_EQ(product.quantised[3], 127);
}

TEST(LlmInt8, ARowOfZerosGivesZeros) {
  Product product{.m = 1, .n = 2, .k = 64};
  for (Bf16& value : product.x) value = ToBf16(0);
  product.Run(6);
  EXPECT_EQ(product.y[0], 0);
}

TEST(LlmInt8, EqualsItsFormulaOnEveryIsa) {
  OnEveryIsa([] {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 5, 64}, {2, 3, 257}, {4, 2, 1000}, {1, 2, 4096}}) {
      Product product{.m = m, .n = n, .k = k};
      product.x[static_cast<std::size_t>(k / 2)] = ToBf16(9);
      product.Run(3);
      EXPECT_GT(product.activations.outlier_count, 0);
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t column = 0; column < n; ++column) {
          ExpectClose(product.y[static_cast<std::size_t>(row * n + column)], product.Expected(row, column), 1e-5, 1,
                      "element");
        }
      }
    }
  });
}

// Found by fuzzing: infinite activations, and those whose reciprocal is infinite, became integers of 32 bits whose sum
// overflowed.
TEST(LlmInt8, ARowOfExtremesIsQuantisedWithinItsRange) {
  OnEveryIsa([] {
    for (const float extreme : {std::numeric_limits<float>::infinity(), 1e-38F, 3e38F}) {
      Product product{.m = 1, .n = 2, .k = 70};
      for (Bf16& value : product.x) value = ToBf16(extreme);
      product.x[7] = ToBf16(0);
      product.x[8] = ToBf16(-extreme);
      product.Run(0);
      int64_t sum = 0;
      for (const int8_t value : product.quantised) {
        EXPECT_GE(value, -127) << extreme;
        sum += value;
      }
      EXPECT_EQ(product.sums[0], sum) << extreme;
      EXPECT_EQ(std::isfinite(product.x_max[0]), std::isfinite(extreme));
      if (std::isinf(extreme)) {
        EXPECT_FALSE(std::isfinite(product.y[0]));  // so that a check can tell
      } else {
        EXPECT_EQ(product.quantised[7], 0) << extreme;
        EXPECT_LT(product.quantised[8], 0) << extreme;
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
