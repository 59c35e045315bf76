// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 15, 16, 17, 33, 4095, 8200};

template <typename T>
class ActivationTest : public testing::Test {};
TYPED_TEST_SUITE(ActivationTest, FloatTypes);

template <typename T>
void ExpectGelu(const std::vector<T>& x) {
  std::vector<T> y(x.size());
  Run(Gelu<T>{.x = x.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())}, ThreadPool(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double value = ToFloat(x[i]);
    // erfc keeps the digits that 1 + erf loses. The square of x is rounded before its exponential is taken.
    const double exact = value * 0.5 * std::erfc(-value / std::sqrt(2.0));
    const double error = std::isfinite(value) ? kApproximation<T> + value * value * 0x1p-24 : 0;
    ExpectClose(y[i], exact, kRounding<T> + error, 1e-30, [&] { return std::to_string(value); });
  }
}

TYPED_TEST(ActivationTest, GeluAgreesWithFloat64AtEverySize) {
  OnEveryIsa([] {
    for (const int64_t n : kSizes) ExpectGelu(Normal<TypeParam>(n, 0, 4));
  });
}

TYPED_TEST(ActivationTest, GeluAgreesWithFloat64WhereItStreams) {
  const auto x = Normal<TypeParam>(2'100'001, 0, 4);
  OnEveryIsa([&] { ExpectGelu(x); });
}

TYPED_TEST(ActivationTest, GeluKeepsItsDigitsFarBelowZero) {
  std::vector<TypeParam> x;
  for (double value = -11; value <= 11; value += 1.0 / 64) x.push_back(FromDouble<TypeParam>(value));
  OnEveryIsa([&] { ExpectGelu(x); });
}

// As ATen's: -infinity · 0 is a NaN.
TYPED_TEST(ActivationTest, GeluInfinityAndNanAreOfLibTorchsClass) {
  std::vector<TypeParam> x;
  for (const double value : {kInfinity, -kInfinity, kNan, 0.0, -0.0, 3e38, -3e38, 1e-30}) {
    x.push_back(FromDouble<TypeParam>(value));
  }
  OnEveryIsa([&] { ExpectGelu(x); });
}

TYPED_TEST(ActivationTest, GeluGradientAgreesWithFloat64InPlaceToo) {
  constexpr double kDensity = 0.3989422804014327;  // 1 / sqrt(2π)
  OnEveryIsa([] {
    for (const int64_t n : kSizes) {
      const auto x = Normal<TypeParam>(n, 0, 4);
      const auto dy = Normal<TypeParam>(n, 0, 1);
      std::vector<TypeParam> in_place = dy;
      std::vector<TypeParam> apart(dy.size());
      kernels::Run(GeluGradient<TypeParam>{x.data(), dy.data(), apart.data(), n}, ThreadPool(2));
      kernels::Run(GeluGradient<TypeParam>{x.data(), in_place.data(), in_place.data(), n}, ThreadPool(2));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = ToFloat(x[i]);
        const double exponential = std::exp(-value * value / 2);
        const double exact = 0.5 * std::erfc(-value / std::sqrt(2.0)) + value * kDensity * exponential;
        // The two terms cancel near -0.75: an error is relative to the terms.
        const double terms = std::abs(ToFloat(dy[i])) * (std::abs(value) + 1) * exponential;
        ExpectClose(apart[i], ToFloat(dy[i]) * exact, kRounding<TypeParam> + 2e-6 + value * value * 0x1p-24,
                    terms + 1e-30, std::to_string(value));
        ASSERT_EQ(ToFloat(in_place[i]), ToFloat(apart[i])) << i;
      }
    }
  });
}

double ExactSilu(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

template <typename X, typename Y = X>
void ExpectSiluMul(const std::vector<X>& gate, const std::vector<X>& up) {
  std::vector<Y> y(gate.size());
  Run(SiluMul<X, Y>{.gate = gate.data(), .up = up.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())},
      ThreadPool(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ExpectClose(y[i], ExactSilu(ToFloat(gate[i]), ToFloat(up[i])), kRounding<Y> + kApproximation<Y>, 1e-30,
                [&] { return std::to_string(i); });
  }
}

TYPED_TEST(ActivationTest, SiluMulAgreesWithFloat64AtEverySize) {
  OnEveryIsa([] {
    for (const int64_t n : kSizes) ExpectSiluMul(Normal<TypeParam>(n, 0, 4), Normal<TypeParam>(n, 0, 1, 2));
  });
}

TEST(SiluMul, RoundsFp32AtEverySizeAndWhereItStreams) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 15, 16, 33, 63, 64, 65, 8200, 2'100'000}) {
      ExpectSiluMul<float, Bf16>(Normal<float>(n, 0, 4), Normal<float>(n, 0, 1, 2));
    }
  });
}

TYPED_TEST(ActivationTest, SiluMulGradientAgreesWithFloat64InPlaceToo) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 15, 16, 33, 8200}) {
      const std::vector<TypeParam> gate = Normal<TypeParam>(n, 0, 4);
      const std::vector<TypeParam> up = Normal<TypeParam>(n, 0, 1, 2);
      std::vector<TypeParam> d_gate = Normal<TypeParam>(n, 0, 1, 3);
      const std::vector<TypeParam> dy = d_gate;
      std::vector<TypeParam> d_up = up;
      kernels::Run(SiluMulGradient<TypeParam>{gate.data(), d_up.data(), d_gate.data(), d_gate.data(), d_up.data(), n},
                   ThreadPool(2));
      for (std::size_t i = 0; i < gate.size(); ++i) {
        const double g = ToFloat(gate[i]);
        const double u = ToFloat(up[i]);
        const double out = ToFloat(dy[i]);
        // By central differences of the function itself.
        constexpr double kStep = 1e-4;
        const double slope = (ExactSilu(g + kStep, u) - ExactSilu(g - kStep, u)) / (2 * kStep);
        ExpectClose(d_gate[i], out * slope, kRounding<TypeParam> + 0x1p-20, std::abs(out * u), std::to_string(i));
        ExpectClose(d_up[i], out * ExactSilu(g, 1), kRounding<TypeParam> + 0x1p-20, 1e-30, std::to_string(i));
      }
    }
  });
}

TYPED_TEST(ActivationTest, SiluMulInfinityAndNanAreThoseOfTheFormula) {
  std::vector<TypeParam> gate;
  std::vector<TypeParam> up;
  for (const double value : {kInfinity, kNan, 1.0, -1.0, 200.0, -60.0}) {
    for (const double other : {1.0, -1.0, kInfinity, -kInfinity, kNan}) {
      gate.push_back(FromDouble<TypeParam>(value));
      up.push_back(FromDouble<TypeParam>(other));
    }
  }
  OnEveryIsa([&] { ExpectSiluMul(gate, up); });
}

// By the logistic function, which keeps its digits below zero, where 1 + tanh has none left.
double ExactGeluTanh(double gate, double up) {
  const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  return gate / (1 + std::exp(-2 * u)) * up;
}

TYPED_TEST(ActivationTest, GeluTanhMulAgreesWithFloat64AtEverySize) {
  // An error of the exponent, which is 40 at most here, is one of the result.
  constexpr double kOfExponent = 40 * 0x1p-23;
  OnEveryIsa([] {
    for (const int64_t n : kSizes) {
      const auto gate = Normal<float>(n, 0, 1.5);
      const auto up = Normal<float>(n, 0, 1, 2);
      std::vector<TypeParam> y(gate.size());
      kernels::Run(GeluTanhMul<TypeParam>{gate.data(), up.data(), y.data(), n}, ThreadPool(2));
      for (std::size_t i = 0; i < y.size(); ++i) {
        ExpectClose(y[i], ExactGeluTanh(gate[i], up[i]), kRounding<TypeParam> + kOfExponent, 1e-30, std::to_string(i));
      }
    }
  });
}

TYPED_TEST(ActivationTest, GeluTanhMulIsTheGateOrNothingFarFromZero) {
  const auto nan = static_cast<float>(kNan);
  const std::vector<float> gate = {20, -20, 3e38F, -1e12F, nan, 1};
  const std::vector<float> up = {2, 2, 0.5, 3, 1, nan};
  const double expected[] = {40, 0, 1.5e38, 0, kNan, kNan};
  OnEveryIsa([&] {
    std::vector<TypeParam> y(gate.size());
    kernels::Run(GeluTanhMul<TypeParam>{gate.data(), up.data(), y.data(), 6}, SerialFor());
    for (std::size_t i = 0; i < y.size(); ++i) ExpectClose(y[i], expected[i], 0x1p-8, 1e-27, std::to_string(i));
    EXPECT_EQ(ToFloat(y[0]), 40);
  });
}

TEST(SoftCap, AgreesWithFloat64AtEverySizeInPlaceToo) {
  OnEveryIsa([] {
    for (const int64_t n : kSizes) {
      for (const auto& [cap, scale] : {std::pair{50.0F, 1.0F}, {30.0F, 0.0625F}, {0.5F, 3.0F}}) {
        const std::vector<float> x = Normal<float>(n, 0, 60);
        std::vector<float> y = x;
        kernels::Run(SoftCap{.x = y.data(), .y = y.data(), .n = n, .cap = cap, .scale = scale}, ThreadPool(2));
        for (std::size_t i = 0; i < y.size(); ++i) {
          ExpectClose(y[i], cap * std::tanh(double{x[i]} * scale / cap), 1e-6, 1e-30, std::to_string(i));
        }
      }
    }
  });
}

TEST(SoftCap, InfinitiesBecomeTheBoundAndNanStays) {
  const auto infinity = static_cast<float>(kInfinity);
  const std::vector<float> x = {infinity, -infinity, static_cast<float>(kNan), 3e38F, -3e38F, 0};
  const std::vector<double> expected = {30, -30, kNan, 30, -30, 0};
  OnEveryIsa([&] {
    std::vector<float> y(x.size());
    kernels::Run(SoftCap{.x = x.data(), .y = y.data(), .n = 6, .cap = 30}, SerialFor());
    for (std::size_t i = 0; i < y.size(); ++i) ExpectClose(y[i], expected[i], 0, 0, std::to_string(i));
  });
}

}  // namespace
}  // namespace roofbench::kernels
