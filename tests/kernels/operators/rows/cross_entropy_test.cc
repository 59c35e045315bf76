// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kScale = 0.25;

template <typename T>
class CrossEntropyTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(CrossEntropyTest, Types);

enum class Gradient { kNone, kApart, kInPlace };

template <typename T>
void ExpectRight(const std::vector<T>& x, const std::vector<int64_t>& target, int64_t cols, int64_t gap,
                 Gradient wanted) {
  const int64_t stride = cols + gap;
  const auto rows = static_cast<int64_t>(target.size());
  std::vector<float> loss(target.size(), 7);
  std::vector<T> gradient = wanted == Gradient::kInPlace ? x : std::vector<T>(x.size(), FromDouble<T>(7));
  Run(CrossEntropy<T>{.x = wanted == Gradient::kInPlace ? gradient.data() : x.data(),
                      .target = target.data(),
                      .loss = loss.data(),
                      .gradient = wanted == Gradient::kNone ? nullptr : gradient.data(),
                      .scale = kScale,
                      .rows = rows,
                      .cols = cols,
                      .x_stride = stride,
                      .gradient_stride = stride},
      ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = [&](int64_t c) { return static_cast<std::size_t>(r * stride + c); };
    const int64_t right = target[static_cast<std::size_t>(r)];
    double largest = -kInfinity;
    for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, double{ToFloat(x[at(c)])});
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(ToFloat(x[at(c)]) - largest);
    ExpectClose(loss[static_cast<std::size_t>(r)], std::log(sum) + (largest - ToFloat(x[at(right)])), 0x1p-19, 1,
                "row " + std::to_string(r));
    for (int64_t c = 0; c < stride; ++c) {
      const std::string where = "row " + std::to_string(r) + ", column " + std::to_string(c);
      if (c >= cols || wanted == Gradient::kNone) {
        ASSERT_EQ(gradient[at(c)], wanted == Gradient::kInPlace ? x[at(c)] : FromDouble<T>(7)) << where;
        continue;
      }
      const double distance = largest - ToFloat(x[at(c)]);
      const double error = std::isfinite(distance) ? 0x1p-18 + distance * 0x1p-23 : 0;
      const double probability = std::exp(ToFloat(x[at(c)]) - largest) / sum;
      // At the target a probability near 1 cancels.
      ExpectClose(gradient[at(c)], (probability - (c == right ? 1 : 0)) * kScale, kRounding<T> + error,
                  c == right ? 0x1p-3 : 1e-35, where);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(CrossEntropyTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t cols : {1, 2, 15, 16, 17, 33, 260}) {
      for (const int64_t gap : {0, 3}) {
        for (const Gradient wanted : {Gradient::kNone, Gradient::kApart, Gradient::kInPlace}) {
          ExpectRight(Normal<TypeParam>(4 * (cols + gap), 0, 4), {0, cols - 1, cols / 2, cols / 3}, cols, gap, wanted);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TYPED_TEST(CrossEntropyTest, NoRowsAreFine) {
  OnEveryIsa([] { ExpectRight<TypeParam>({}, {}, 8, 0, Gradient::kApart); });
}

TYPED_TEST(CrossEntropyTest, LogitsFarFromZeroDoNotOverflow) {
  OnEveryIsa([] {
    for (const double mean : {-3e4, 3e4}) {
      ExpectRight(Normal<TypeParam>(3 * 40, mean, 300), {0, 20, 39}, 40, 0, Gradient::kApart);
    }
  });
}

// ATen's classes: a NaN, +infinity, or nothing but -infinity make a NaN row; a single -infinity is an impossible class,
// whose loss is infinite.
TYPED_TEST(CrossEntropyTest, InfinityAndNanAreOfLibTorchsClass) {
  OnEveryIsa([] {
    for (const double special : {kNan, kInfinity, -kInfinity}) {
      for (const int64_t where : {0, 18, 36}) {
        std::vector<TypeParam> x = Normal<TypeParam>(3 * 37);
        x[static_cast<std::size_t>(37 + where)] = FromDouble<TypeParam>(special);
        std::fill(x.begin() + 2 * 37, x.end(), FromDouble<TypeParam>(-kInfinity));
        ExpectRight(x, {3, 18, 5}, 37, 0, Gradient::kApart);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
