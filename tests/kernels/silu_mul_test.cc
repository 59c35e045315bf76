#include "lib/kernels/silu_mul.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/kernels/team.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class SiluMulTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SiluMulTest, Types);

double Exact(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

template <typename T>
void ExpectRight(const std::vector<T>& gate, const std::vector<T>& up) {
  std::vector<T> y(gate.size());
  Run(SiluMul<T>{.gate = gate.data(), .up = up.data(), .y = y.data(), .n = static_cast<int64_t>(y.size())},
      OpenMpTeam(2));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ExpectClose(y[i], Exact(ToFloat(gate[i]), ToFloat(up[i])), kRounding<T> + kApproximation<T>, 1e-30,
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
