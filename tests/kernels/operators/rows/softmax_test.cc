// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
class SoftmaxTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SoftmaxTest, Types);

// Runs the kernel over rows with `gap` elements between them and compares each with the formula in float64.
template <typename T>
void ExpectRight(const std::vector<T>& x, int64_t rows, int64_t cols, int64_t gap = 0) {
  std::vector<T> y(x.size(), FromDouble<T>(7));
  const int64_t stride = cols + gap;
  Run(Softmax<T>{.x = x.data(), .y = y.data(), .rows = rows, .cols = cols, .x_stride = stride, .y_stride = stride},
      ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = [&](int64_t c) { return static_cast<std::size_t>(r * stride + c); };
    double largest = -kInfinity;
    for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, double{ToFloat(x[at(c)])});
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(ToFloat(x[at(c)]) - largest);
    for (int64_t c = 0; c < stride; ++c) {
      const std::string where =
          "row " + std::to_string(r) + ", column " + std::to_string(c) + " of " + std::to_string(cols);
      if (c >= cols) {
        ASSERT_EQ(y[at(c)], FromDouble<T>(7)) << where;
        continue;
      }
      // An fp32 exponential of a distance d is off by about d roundings; and below 1e-38 there is only zero.
      const double distance = largest - ToFloat(x[at(c)]);
      const double error = std::isfinite(distance) ? kApproximation<T> + distance * 0x1p-23 : 0;
      ExpectClose(y[at(c)], std::exp(ToFloat(x[at(c)]) - largest) / sum, kRounding<T> + error, 1e-35, where);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(SoftmaxTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t rows : {0, 1, 2, 5}) {
      for (const int64_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 63, 200, 1000, 1024}) {
        ExpectRight(Normal<TypeParam>(rows * cols, 0, 3), rows, cols);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, KeepsToItsRowsWhereThereAreGaps) {
  OnEveryIsa([] {
    for (const int64_t gap : {1, 32}) ExpectRight(Normal<TypeParam>(5 * (96 + gap)), 5, 96, gap);
  });
}

TYPED_TEST(SoftmaxTest, LargeAndNegativeLogitsLoseNothing) {
  OnEveryIsa([] {
    for (const double mean : {1e4, -1e4, -50.0}) ExpectRight(Normal<TypeParam>(3 * 100, mean, 20), 3, 100);
  });
}

// Includes a fully masked row.
TYPED_TEST(SoftmaxTest, EqualLogitsOfAnySizeShareTheRow) {
  OnEveryIsa([] {
    for (double size = 1; size < 3e38; size *= 3) {
      for (const double largest : {size, -size}) {
        std::vector<TypeParam> x(100, FromDouble<TypeParam>(largest));
        x[7] = FromDouble<TypeParam>(largest < 0 ? 1.1 * largest : 0);
        ExpectRight(x, 1, 100);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, InfinitiesAndNansAreThoseOfTheFormula) {
  OnEveryIsa([] {
    for (const double value : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (const int64_t at : {0, 40, 66}) {
        for (const double mean : {0.0, -100.0}) {
          std::vector<TypeParam> x = Normal<TypeParam>(3 * 67, mean);
          x[static_cast<std::size_t>(67 + at)] = FromDouble<TypeParam>(value);
          if (std::isnan(value)) {
            // std::max of the reference would skip it.
            ExpectRight(std::vector<TypeParam>(x.begin(), x.begin() + 67), 1, 67);
            std::vector<TypeParam> y(67);
            Run(Softmax<TypeParam>{.x = x.data() + 67, .y = y.data(), .rows = 1, .cols = 67}, SerialFor());
            for (const TypeParam element : y) ASSERT_EQ(ClassOf(ToFloat(element)), Class::kNan);
          } else {
            ExpectRight(x, 3, 67);
          }
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    // The softmax of a row of -infinity alone is undefined.
    ExpectRight(std::vector<TypeParam>(40, FromDouble<TypeParam>(-kInfinity)), 1, 40);
  });
}

}  // namespace
}  // namespace roofbench::kernels
