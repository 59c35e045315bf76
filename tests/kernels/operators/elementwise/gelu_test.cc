// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/gelu.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class GeluTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(GeluTest, Types);

template <typename T>
void ExpectRight(const std::vector<T>& x) {
  std::vector<T> y(x.size());
  Run(Gelu<T>{.x = x.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())}, ThreadPool(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double value = ToFloat(x[i]);
    // erfc keeps the digits that 1 + erf loses. The square of x is rounded before its exponential is taken.
    const double exact = value * 0.5 * std::erfc(-value / std::sqrt(2.0));
    const double error = std::isfinite(value) ? kApproximation<T> + value * value * 0x1p-24 : 0;
    ExpectClose(y[i], exact, kRounding<T> + error, 1e-30, std::to_string(value));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(GeluTest, AgreesWithFloat64AtEverySize) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 3, 15, 16, 17, 33, 4095, 8200}) ExpectRight(Normal<TypeParam>(n, 0, 4));
  });
}

TYPED_TEST(GeluTest, KeepsItsDigitsFarBelowZero) {
  std::vector<TypeParam> x;
  for (double value = -11; value <= 11; value += 1.0 / 64) x.push_back(FromDouble<TypeParam>(value));
  OnEveryIsa([&] { ExpectRight(x); });
}

// As ATen's: -infinity · 0 is a NaN.
TYPED_TEST(GeluTest, InfinityAndNanAreOfLibTorchsClass) {
  std::vector<TypeParam> x;
  for (const double value : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(), 0.0, -0.0, 3e38, -3e38, 1e-30}) {
    x.push_back(FromDouble<TypeParam>(value));
  }
  OnEveryIsa([&] { ExpectRight(x); });
}

template <typename T>
void ExpectRightGradient(const std::vector<T>& x, const std::vector<T>& dy) {
  constexpr double kDensity = 0.3989422804014327;  // 1 / sqrt(2π)
  std::vector<T> dx(x.size());
  Run(GeluGradient<T>{.x = x.data(), .dy = dy.data(), .dx = dx.data(), .n = static_cast<int64_t>(x.size())},
      ThreadPool(2));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = ToFloat(x[i]);
    const double exponential = std::exp(-value * value / 2);
    const double exact = 0.5 * std::erfc(-value / std::sqrt(2.0)) + value * kDensity * exponential;
    // The two terms cancel near -0.75: an error is one of theirs.
    const double terms = std::abs(ToFloat(dy[i])) * (std::abs(value) + 1) * exponential;
    ExpectClose(dx[i], ToFloat(dy[i]) * exact, kRounding<T> + 2e-6 + value * value * 0x1p-24, terms + 1e-30,
                std::to_string(value));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(GeluTest, GradientAgreesWithFloat64) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 15, 16, 17, 4095, 8200}) {
      ExpectRightGradient(Normal<TypeParam>(n, 0, 4), Normal<TypeParam>(n, 0, 1));
    }
  });
}

TYPED_TEST(GeluTest, GradientMayTakeThePlaceOfItsInput) {
  const std::vector<TypeParam> x = Normal<TypeParam>(100, 0, 2);
  std::vector<TypeParam> apart(100);
  std::vector<TypeParam> in_place = Normal<TypeParam>(100, 0, 1);
  Run(GeluGradient<TypeParam>{.x = x.data(), .dy = in_place.data(), .dx = apart.data(), .n = 100}, ThreadPool(2));
  Run(GeluGradient<TypeParam>{.x = x.data(), .dy = in_place.data(), .dx = in_place.data(), .n = 100}, ThreadPool(2));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(ToFloat(in_place[i]), ToFloat(apart[i]));
}

}  // namespace
}  // namespace roofbench::kernels
