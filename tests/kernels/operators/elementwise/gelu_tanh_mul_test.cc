// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/gelu_tanh_mul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class GeluTanhMulTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(GeluTanhMulTest, Types);

// By the logistic function, which keeps its digits below zero, where 1 + tanh has none left.
double Exact(double gate, double up) {
  const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  return gate / (1 + std::exp(-2 * u)) * up;
}

template <typename T>
void ExpectRight(const std::vector<float>& gate, const std::vector<float>& up, double tolerance) {
  std::vector<T> y(gate.size());
  Run(GeluTanhMul<T>{.gate = gate.data(), .up = up.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())},
      ThreadPool(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ExpectClose(y[i], Exact(gate[i], up[i]), tolerance, 1e-30, std::to_string(i));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(GeluTanhMulTest, AgreesWithFloat64AtEverySize) {
  // An error of the exponent, which is 40 at most here, is one of the result.
  constexpr double kOfExponent = 40 * 0x1p-23;
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 3, 15, 16, 17, 33, 4095, 8200}) {
      ExpectRight<TypeParam>(Normal<float>(n, 0, 1.5), Normal<float>(n, 0, 1, 2), kRounding<TypeParam> + kOfExponent);
    }
  });
}

TYPED_TEST(GeluTanhMulTest, FarFromZeroItIsTheGateOrNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> gate = {20, -20, 3e38F, -1e12F, nan, 1};
  const std::vector<float> up = {2, 2, 0.5, 3, 1, nan};
  OnEveryIsa([&] {
    std::vector<TypeParam> y(gate.size());
    kernels::Run(GeluTanhMul<TypeParam>{.gate = gate.data(), .up = up.data(), .y = y.data(), .n = 6}, SerialFor());
    EXPECT_EQ(ToFloat(y[0]), 40);
    EXPECT_NEAR(ToFloat(y[1]), 0, 1e-30);
    EXPECT_NEAR(ToFloat(y[2]), 1.5e38F, 1e36F);
    EXPECT_NEAR(ToFloat(y[3]), 0, 1e-30);
    EXPECT_TRUE(std::isnan(ToFloat(y[4])));
    EXPECT_TRUE(std::isnan(ToFloat(y[5])));
  });
}

}  // namespace
}  // namespace roofbench::kernels
