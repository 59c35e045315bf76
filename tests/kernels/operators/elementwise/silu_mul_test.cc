// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/silu_mul.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class SiluMulTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SiluMulTest, Types);

double Exact(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

template <typename X, typename Y = X>
void ExpectRight(const std::vector<X>& gate, const std::vector<X>& up) {
  std::vector<Y> y(gate.size());
  Run(SiluMul<X, Y>{.gate = gate.data(), .up = up.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())},
      ThreadPool(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ExpectClose(y[i], Exact(ToFloat(gate[i]), ToFloat(up[i])), kRounding<Y> + kApproximation<Y>, 1e-30,
                std::to_string(i));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(SiluMulTest, AgreesWithFloat64AtEverySize) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 3, 15, 16, 17, 33, 4095, 8200}) {
      ExpectRight(Normal<TypeParam>(n, 0, 4), Normal<TypeParam>(n, 0, 1, 2));
    }
  });
}

TEST(SiluMul, RoundsFp32AtEverySizeAndWhereItStreams) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 15, 16, 33, 63, 64, 65, 8200, 2'100'000}) {
      ExpectRight<float, Bf16>(Normal<float>(n, 0, 4), Normal<float>(n, 0, 1, 2));
    }
  });
}

TYPED_TEST(SiluMulTest, GradientAgreesWithFloat64InPlaceToo) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 15, 16, 33, 8200}) {
      const std::vector<TypeParam> gate = Normal<TypeParam>(n, 0, 4);
      const std::vector<TypeParam> up = Normal<TypeParam>(n, 0, 1, 2);
      std::vector<TypeParam> d_gate = Normal<TypeParam>(n, 0, 1, 3);
      const std::vector<TypeParam> dy = d_gate;
      std::vector<TypeParam> d_up = up;
      kernels::Run(SiluMulGradient<TypeParam>{.gate = gate.data(),
                                              .up = d_up.data(),
                                              .dy = d_gate.data(),
                                              .d_gate = d_gate.data(),
                                              .d_up = d_up.data(),
                                              .n = n},
                   ThreadPool(2));
      for (std::size_t i = 0; i < gate.size(); ++i) {
        const double g = ToFloat(gate[i]);
        const double u = ToFloat(up[i]);
        const double out = ToFloat(dy[i]);
        // By central differences of the function itself.
        constexpr double kStep = 1e-4;
        const double slope = (Exact(g + kStep, u) - Exact(g - kStep, u)) / (2 * kStep);
        ExpectClose(d_gate[i], out * slope, kRounding<TypeParam> + 0x1p-20, std::abs(out * u), std::to_string(i));
        ExpectClose(d_up[i], out * Exact(g, 1), kRounding<TypeParam> + 0x1p-20, 1e-30, std::to_string(i));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(SiluMulTest, InfinityAndNanStayWhatTheyAre) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<TypeParam> gate;
  std::vector<TypeParam> up;
  for (const double value : {infinity, nan, 1.0, -1.0, 200.0, -60.0}) {
    for (const double other : {1.0, -1.0, infinity, -infinity, nan}) {
      gate.push_back(FromDouble<TypeParam>(value));
      up.push_back(FromDouble<TypeParam>(other));
    }
  }
  OnEveryIsa([&] { ExpectRight(gate, up); });
}

}  // namespace
}  // namespace roofbench::kernels
