// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm_gradient.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class NormGradientTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(NormGradientTest, Types);

std::size_t Index(int64_t i) { return static_cast<std::size_t>(i); }

template <typename T>
void ExpectRight(const std::vector<T>& x, const std::vector<T>& dy, int64_t rows, int64_t cols, int64_t gap,
                 bool centers) {
  const int64_t stride = cols + gap;
  const auto weight = Normal<float>(cols, 1, 1, 3);
  const auto mean = Normal<float>(rows, 0, 1, 4);
  const auto rstd = Normal<float>(rows, 2, 0.1, 5);
  std::vector<T> dx(x.size(), FromDouble<T>(7));
  std::vector<float> dweight(Index(cols), 7);
  std::vector<float> dbias(Index(cols), 7);
  const ThreadPool pool(2);
  std::vector<float> scratch(Index(2 * pool.threads() * cols), 7);
  Run(NormGradient<T>{.x = x.data(),
                      .dy = dy.data(),
                      .weight = weight.data(),
                      .mean = centers ? mean.data() : nullptr,
                      .rstd = rstd.data(),
                      .dx = dx.data(),
                      .dweight = dweight.data(),
                      .dbias = centers ? dbias.data() : nullptr,
                      .scratch = scratch.data(),
                      .rows = rows,
                      .cols = cols,
                      .x_stride = stride,
                      .dx_stride = stride},
      pool);
  std::vector<double> weight_sums(Index(cols), 0);
  std::vector<double> bias_sums(Index(cols), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const double center = centers ? mean[Index(r)] : 0;
    double sum = 0;
    double product = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double upstream = ToFloat(dy[Index(r * stride + c)]);
      const double unit = (ToFloat(x[Index(r * stride + c)]) - center) * rstd[Index(r)];
      sum += upstream * weight[Index(c)];
      product += upstream * weight[Index(c)] * unit;
      weight_sums[Index(c)] += upstream * unit;
      bias_sums[Index(c)] += upstream;
    }
    const auto n = static_cast<double>(cols);
    for (int64_t c = 0; c < stride; ++c) {
      const std::string where = "row " + std::to_string(r) + ", column " + std::to_string(c);
      if (c >= cols) {
        ASSERT_EQ(dx[Index(r * stride + c)], FromDouble<T>(7)) << where;
        continue;
      }
      const double upstream = ToFloat(dy[Index(r * stride + c)]);
      const double unit = (ToFloat(x[Index(r * stride + c)]) - center) * rstd[Index(r)];
      const double exact =
          rstd[Index(r)] * (upstream * weight[Index(c)] - (centers ? sum / n : 0) - unit * product / n);
      // Terms as large as 10 cancel in fp32.
      constexpr double kCancelled = sizeof(T) == 2 ? 0x1p-10 : 1;
      ExpectClose(dx[Index(r * stride + c)], exact, kRounding<T> + 0x1p-18, kCancelled, where);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    ExpectClose(dweight[Index(c)], weight_sums[Index(c)], 0x1p-18, 1, "weight " + std::to_string(c));
    if (testing::Test::HasFatalFailure()) return;
    if (centers) ExpectClose(dbias[Index(c)], bias_sums[Index(c)], 0x1p-18, 1, "bias " + std::to_string(c));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(NormGradientTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t cols : {1, 3, 16, 17, 33, 260}) {
      for (const int64_t rows : {0, 1, 5}) {
        for (const int64_t gap : {0, 3}) {
          for (const bool centers : {false, true}) {
            const int64_t n = rows * (cols + gap);
            ExpectRight(Normal<TypeParam>(n, 0, 1, 1), Normal<TypeParam>(n, 0, 1, 2), rows, cols, gap, centers);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TYPED_TEST(NormGradientTest, NoColumnsAreFine) {
  OnEveryIsa([] { ExpectRight<TypeParam>({}, {}, 3, 0, 0, true); });
}

TYPED_TEST(NormGradientTest, InfinityAndNanReachTheirRowAndColumn) {
  OnEveryIsa([] {
    for (const double special : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      for (const bool in_x : {false, true}) {
        std::vector<TypeParam> x = Normal<TypeParam>(3 * 37, 0, 1, 1);
        std::vector<TypeParam> dy = Normal<TypeParam>(3 * 37, 0, 1, 2);
        (in_x ? x : dy)[37 + 36] = FromDouble<TypeParam>(special);
        ExpectRight(x, dy, 3, 37, 0, true);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
