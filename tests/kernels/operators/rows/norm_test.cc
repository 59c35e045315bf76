// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "lib/kernels/operators/rows/norm.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
class NormTest : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(NormTest, Types);

// A matrix with guard space after each row, and the kernel's result.
template <typename T>
struct Rows {
  int64_t rows;
  int64_t cols;
  int64_t gap = 0;
  std::vector<T> x = Normal<T>(rows * (cols + gap));
  std::vector<float> weight = Normal<float>(cols, 1, 0.5, 2);
  std::vector<float> bias = Normal<float>(cols, 0, 1, 3);
  std::vector<T> y = std::vector<T>(static_cast<std::size_t>(rows * (cols + gap)), FromDouble<T>(7));
  std::vector<float> mean = std::vector<float>(static_cast<std::size_t>(rows));
  std::vector<float> rstd = std::vector<float>(static_cast<std::size_t>(rows));

  T& At(int64_t row, int64_t col) { return x[static_cast<std::size_t>(row * (cols + gap) + col)]; }

  LayerNorm<T> Layer() {
    return {.x = x.data(),
            .y = y.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .rows = rows,
            .cols = cols,
            .x_stride = cols + gap,
            .y_stride = cols + gap};
  }
  RmsNorm<T> Rms() {
    return {.x = x.data(),
            .y = y.data(),
            .weight = weight.data(),
            .rstd = rstd.data(),
            .rows = rows,
            .cols = cols,
            .x_stride = cols + gap,
            .y_stride = cols + gap};
  }

  // Checks y against the formula in float64, and that the space after each row is untouched. `error`: of a normalized
  // element in fp32.
  void ExpectNormalized(bool centered, float eps, double error) {
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> exact;
      for (int64_t c = 0; c < cols; ++c) exact.push_back(ToFloat(At(r, c)));
      const auto n = static_cast<double>(cols);
      const double center = centered ? std::accumulate(exact.begin(), exact.end(), 0.0) / n : 0;
      double squares = 0;
      for (double& value : exact) {
        value -= center;
        squares += value * value;
      }
      const double scale = 1 / std::sqrt(squares / n + eps);
      for (int64_t c = 0; c < cols + gap; ++c) {
        const std::string where = "row " + std::to_string(r) + " of " + std::to_string(rows) + ", column " +
                                  std::to_string(c) + " of " + std::to_string(cols);
        const T actual = y[static_cast<std::size_t>(r * (cols + gap) + c)];
        if (c >= cols) {
          ASSERT_EQ(actual, FromDouble<T>(7)) << where;
          continue;
        }
        const auto at = static_cast<std::size_t>(c);
        const double unit = exact[at] * scale;
        const double expected = unit * weight[at] + (centered ? bias[at] : 0);
        // An error of the unit value is scaled by the weight; then the result is rounded.
        ExpectClose(actual, expected, kRounding<T>, error / kRounding<T> * (std::abs(unit) + 1) * std::abs(weight[at]),
                    where);
        if (testing::Test::HasFatalFailure()) return;
      }
      if (centered) {
        ExpectClose(mean[static_cast<std::size_t>(r)], center, 1e-6, 0.1 + std::abs(center), "mean");
      }
      ExpectClose(rstd[static_cast<std::size_t>(r)], scale, 4 * error, 0, "rstd");
      if (testing::Test::HasFatalFailure()) return;
    }
  }
};

constexpr double kFp32Error = 0x1p-20;

template <typename T>
void ExpectBothRight(Rows<T> rows) {
  Run(rows.Layer(), ThreadPool(2));
  rows.ExpectNormalized(true, 1e-5F, kFp32Error);
  if (testing::Test::HasFatalFailure()) return;
  Run(rows.Rms(), ThreadPool(2));
  rows.ExpectNormalized(false, 1e-6F, kFp32Error);
}

TYPED_TEST(NormTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t rows : {0, 1, 2, 3, 5, 8}) {
      for (const int64_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 63, 200, 1000, 1024}) {
        ExpectBothRight(Rows<TypeParam>{.rows = rows, .cols = cols});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(NormTest, KeepsToItsRowsWhereThereAreGaps) {
  OnEveryIsa([] {
    for (const int64_t gap : {1, 24, 32}) ExpectBothRight(Rows<TypeParam>{.rows = 5, .cols = 96, .gap = gap});
  });
}

TYPED_TEST(NormTest, StreamsLargeResults) {
  OnEveryIsa([] {
    // 5 MiB of rows that begin with a cache line, in memory that begins with one.
    constexpr int64_t kCols = 1024;
    const int64_t rows = (5 << 20) / kCols / static_cast<int64_t>(sizeof(TypeParam));
    Rows<TypeParam> data{.rows = rows + 1, .cols = kCols};
    LayerNorm<TypeParam> work = data.Layer();
    const auto off = reinterpret_cast<uintptr_t>(work.y) % 64 / sizeof(TypeParam);
    const std::size_t skip = off == 0 ? 0 : 64 / sizeof(TypeParam) - off;
    work.rows = rows;
    work.y += skip;
    Run(work, ThreadPool(2));
    std::vector<TypeParam> streamed(data.y.begin() + static_cast<int64_t>(skip),
                                    data.y.begin() + static_cast<int64_t>(skip) + rows * kCols);
    // The first rows by themselves are too few to be streamed.
    work.rows = 64;
    Run(work, SerialFor());
    const std::vector<TypeParam> plain(data.y.begin() + static_cast<int64_t>(skip),
                                       data.y.begin() + static_cast<int64_t>(skip) + 64 * kCols);
    streamed.resize(plain.size());
    EXPECT_EQ(streamed, plain);
    data.y.erase(data.y.begin(), data.y.begin() + static_cast<int64_t>(skip));
    data.rows = 64;
    data.ExpectNormalized(true, 1e-5F, kFp32Error);
  });
}

TYPED_TEST(NormTest, NothingCancelsWhereTheMeanDwarfsTheDeviation) {
  OnEveryIsa([] {
    for (const int64_t cols : {17, 1000, 4096}) {
      // bf16 has eight bits of mean and deviation together.
      for (const double mean :
           sizeof(TypeParam) == 4 ? std::vector<double>{30, 1000, -1e5} : std::vector<double>{30, -60}) {
        SCOPED_TRACE(mean);
        Rows<TypeParam> rows{.rows = 3, .cols = cols};
        rows.x = Normal<TypeParam>(3 * cols, mean, 1);
        Run(rows.Layer(), SerialFor());
        rows.ExpectNormalized(true, 1e-5F, 2 * kFp32Error);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(NormTest, ConstantRowsBecomeTheBias) {
  OnEveryIsa([] {
    Rows<TypeParam> rows{.rows = 2, .cols = 100};
    rows.x.assign(200, FromDouble<TypeParam>(3));
    Run(rows.Layer(), SerialFor());
    rows.ExpectNormalized(true, 1e-5F, kFp32Error);
  });
}

// An infinity or a NaN spoils only its own row, and all of it.
TYPED_TEST(NormTest, InfinitiesAndNansStayInTheirRow) {
  OnEveryIsa([] {
    for (const double value : {kInfinity, -kInfinity, kNan}) {
      for (const int64_t at : {0, 40, 66}) {
        Rows<TypeParam> rows{.rows = 4, .cols = 67};
        rows.At(1, at) = FromDouble<TypeParam>(value);
        Run(rows.Layer(), SerialFor());
        rows.ExpectNormalized(true, 1e-5F, kFp32Error);
        if (testing::Test::HasFatalFailure()) return;
        Run(rows.Rms(), SerialFor());
        rows.ExpectNormalized(false, 1e-6F, kFp32Error);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TYPED_TEST(NormTest, WeightAndBiasMayBeAbsent) {
  OnEveryIsa([] {
    Rows<TypeParam> rows{.rows = 2, .cols = 40};
    rows.weight.assign(40, 1);
    rows.bias.assign(40, 0);
    LayerNorm<TypeParam> layer = rows.Layer();
    layer.weight = layer.bias = nullptr;
    Run(layer, SerialFor());
    rows.ExpectNormalized(true, 1e-5F, kFp32Error);
    RmsNorm<TypeParam> rms = rows.Rms();
    rms.weight = nullptr;
    Run(rms, SerialFor());
    rows.ExpectNormalized(false, 1e-6F, kFp32Error);
  });
}

// The norm of a residual stream: fp32 comes in, and bf16 leaves, the nearest to what fp32 would be.
TEST(RoundedRmsNorm, IsTheFp32NormRounded) {
  OnEveryIsa([] {
    for (const int64_t rows : {1, 2, 3, 7}) {
      for (const int64_t cols : {1, 15, 16, 17, 40, 1024}) {
        Rows<float> data{.rows = rows, .cols = cols, .gap = 8};
        kernels::Run(data.Rms(), SerialFor());
        std::vector<Bf16> y(static_cast<std::size_t>(rows * (cols + 3)), ToBf16(7));
        kernels::Run(RmsNorm<float, Bf16>{.x = data.x.data(),
                                          .y = y.data(),
                                          .weight = data.weight.data(),
                                          .rows = rows,
                                          .cols = cols,
                                          .x_stride = cols + 8,
                                          .y_stride = cols + 3},
                     ThreadPool(2));
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols + 3; ++c) {
            const float wide = c < cols ? data.y[static_cast<std::size_t>(r * (cols + 8) + c)] : 7;
            ASSERT_EQ(y[static_cast<std::size_t>(r * (cols + 3) + c)], ToBf16(wide))
                << rows << "x" << cols << ": " << c;
          }
        }
      }
    }
  });
}

TEST(RoundedRmsNorm, StreamsLargeResults) {
  OnEveryIsa([] {
    constexpr int64_t kCols = 1024;
    constexpr int64_t kRows = (5 << 20) / kCols / 2;
    const Rows<float> data{.rows = kRows, .cols = kCols};
    std::vector<Bf16> memory(static_cast<std::size_t>((kRows + 1) * kCols));
    Bf16* y = memory.data();
    while (reinterpret_cast<uintptr_t>(y) % 64 != 0) ++y;
    RmsNorm<float, Bf16> work{.x = data.x.data(), .y = y, .weight = data.weight.data(), .rows = kRows, .cols = kCols};
    kernels::Run(work, ThreadPool(2));
    const std::vector<Bf16> streamed(y, y + 64 * kCols);
    work.rows = 64;
    kernels::Run(work, SerialFor());
    EXPECT_EQ(streamed, std::vector<Bf16>(y, y + 64 * kCols));
  });
}

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
