// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kFp32Error = 0x1p-20;

// A matrix, and the kernels' results, which begin with a cache line.
template <typename T>
struct Rows {
  int64_t rows;
  int64_t cols;
  std::vector<T> x = Normal<T>(rows * cols);
  std::vector<float> weight = Normal<float>(cols, 1, 0.5, 2);
  std::vector<float> bias = Normal<float>(cols, 0, 1, 3);
  std::vector<Line<T>> lines = std::vector<Line<T>>(Size(rows * cols) * sizeof(T) / kLineBytes + 1);
  std::vector<float> rstd = std::vector<float>(Size(rows));

  T* y() { return lines.data()->values; }

  LayerNorm<T> Layer() {
    return {.x = x.data(), .y = y(), .weight = weight.data(), .bias = bias.data(), .rows = rows, .cols = cols};
  }
  template <typename Y = T>
  RmsNorm<T, Y> Rms(Y* to) {
    return {.x = x.data(), .y = to, .weight = weight.data(), .rstd = rstd.data(), .rows = rows, .cols = cols};
  }

  void RunLayer() { Run(Layer(), ThreadPool(2)); }
  void RunRms() { Run(Rms(y()), ThreadPool(2)); }

  // Checks y against the formula in float64. `error`: of a normalized element in fp32.
  void ExpectNormalized(bool centered, double error = kFp32Error) {
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> exact;
      double center = 0;
      for (int64_t c = 0; c < cols; ++c) {
        exact.push_back(ToFloat(x[Size(r * cols + c)]));
        if (centered) center += exact.back() / static_cast<double>(cols);
      }
      double variance = 0;
      for (double& value : exact) {
        value -= center;
        variance += value * value / static_cast<double>(cols);
      }
      const double scale = 1 / std::sqrt(variance + (centered ? 1e-5 : 1e-6));
      for (std::size_t c = 0; c < exact.size(); ++c) {
        const double unit = exact[c] * scale;
        const double expected = unit * weight[c] + (centered ? bias[c] : 0);
        // An error of the unit value is scaled by the weight; then the result is rounded.
        ExpectClose(y()[Size(r * cols) + c], expected, kRounding<T>,
                    error / kRounding<T> * (std::abs(unit) + 1) * std::abs(weight[c]), [&] {
                      return "row " + std::to_string(r) + " of " + std::to_string(rows) + ", column " +
                             std::to_string(c) + " of " + std::to_string(cols);
                    });
      }
      if (!centered) ExpectClose(rstd[Size(r)], scale, 4 * error, 0, "rstd");
    }
  }

  void ExpectBothRight() {
    T& guard = y()[rows * cols];
    guard = FromDouble<T>(7);
    RunLayer();
    ExpectNormalized(true);
    RunRms();
    ExpectNormalized(false);
    ASSERT_EQ(guard, FromDouble<T>(7)) << "written beyond the result";
  }
};

template <typename T>
class NormTest : public testing::Test {};
TYPED_TEST_SUITE(NormTest, FloatTypes);

TYPED_TEST(NormTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t rows : {0, 1, 2, 3, 5, 8}) {
      for (const int64_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 63, 200, 1000, 1024}) {
        Rows<TypeParam>{rows, cols}.ExpectBothRight();
      }
    }
  });
}

TYPED_TEST(NormTest, StreamsLargeResults) {
  OnEveryIsa([] {
    constexpr int64_t kCols = 1024;
    Rows<TypeParam> data{(kStreamBytes + 1) / kCols / static_cast<int64_t>(sizeof(TypeParam)) + 1, kCols};
    data.RunLayer();
    const std::vector<TypeParam> streamed(data.y(), data.y() + 64 * kCols);
    // The first rows by themselves are too few to be streamed.
    data.rows = 64;
    data.RunLayer();
    EXPECT_EQ(streamed, std::vector<TypeParam>(data.y(), data.y() + 64 * kCols));
    data.ExpectNormalized(true);
  });
}

TYPED_TEST(NormTest, NothingCancelsWhereTheMeanDwarfsTheDeviation) {
  OnEveryIsa([] {
    for (const int64_t cols : {17, 1000, 4096}) {
      // bf16 has eight bits of mean and deviation together.
      for (const double mean :
           sizeof(TypeParam) == 4 ? std::vector<double>{30, 1000, -1e5} : std::vector<double>{30, -60}) {
        SCOPED_TRACE(mean);
        Rows<TypeParam> rows{.rows = 3, .cols = cols, .x = Normal<TypeParam>(3 * cols, mean)};
        rows.RunLayer();
        rows.ExpectNormalized(true, 2 * kFp32Error);
      }
    }
  });
}

TYPED_TEST(NormTest, ConstantRowsBecomeTheBias) {
  OnEveryIsa([] {
    Rows<TypeParam> rows{.rows = 2, .cols = 100, .x = std::vector<TypeParam>(200, FromDouble<TypeParam>(3))};
    rows.RunLayer();
    rows.ExpectNormalized(true);
  });
}

// An infinity or a NaN spoils only its own row, and all of it.
TYPED_TEST(NormTest, InfinitiesAndNansStayInTheirRow) {
  OnEveryIsa([] {
    for (const double value : {kInfinity, -kInfinity, kNan}) {
      for (const int64_t at : {0, 40, 66}) {
        Rows<TypeParam> rows{.rows = 4, .cols = 67};
        rows.x[Size(67 + at)] = FromDouble<TypeParam>(value);
        rows.ExpectBothRight();
      }
    }
  });
}

// The norm of a residual stream: fp32 comes in, and bf16 leaves, the nearest to what fp32 would be. The largest
// streams.
TEST(RoundedRmsNorm, IsTheFp32NormRounded) {
  OnEveryIsa([] {
    for (const int64_t rows : {1, 2, 3, 7, 2100}) {
      for (const int64_t cols : {1, 15, 16, 17, 40, 1024}) {
        Rows<float> data{rows, cols};
        data.RunRms();
        std::vector<Line<Bf16>> lines(Size(rows * cols / 32 + 1));
        Bf16* const y = lines.data()->values;
        kernels::Run(data.Rms(y), ThreadPool(2));
        for (int64_t i = 0; i < rows * cols; ++i) {
          ASSERT_EQ(y[i], ToBf16(data.y()[i])) << rows << "x" << cols << ": " << i;
        }
      }
    }
  });
}

// The gradients of a layer norm (`centers`) or an RMS norm against the formulas in float64.
template <typename T>
void ExpectGradients(const std::vector<T>& x, const std::vector<T>& dy, int64_t rows, int64_t cols, bool centers) {
  const auto weight = Normal<float>(cols, 1, 1, 3);
  const auto mean = Normal<float>(rows, 0, 1, 4);
  const auto rstd = Normal<float>(rows, 2, 0.1, 5);
  std::vector<Line<T>> lines(x.size() * sizeof(T) / kLineBytes + 1);
  T* const dx = lines.data()->values;
  T& guard = dx[x.size()];
  guard = FromDouble<T>(7);
  std::vector<float> dweight(Size(cols), 7);
  std::vector<float> dbias(Size(cols), 7);
  const ThreadPool pool(2);
  std::vector<float> scratch(Size(2 * pool.threads() * cols), 7);
  Run(NormGradient<T>{.x = x.data(),
                      .dy = dy.data(),
                      .weight = weight.data(),
                      .mean = centers ? mean.data() : nullptr,
                      .rstd = rstd.data(),
                      .dx = dx,
                      .dweight = dweight.data(),
                      .dbias = centers ? dbias.data() : nullptr,
                      .scratch = scratch.data(),
                      .rows = rows,
                      .cols = cols},
      pool);
  std::vector<double> weight_sums(Size(cols), 0);
  std::vector<double> bias_sums(Size(cols), 0);
  const auto n = static_cast<double>(cols);
  for (std::size_t r = 0; r < Size(rows); ++r) {
    const double center = centers ? mean[r] : 0;
    const auto upstream = [&](std::size_t c) { return double{ToFloat(dy[r * Size(cols) + c])}; };
    const auto unit = [&](std::size_t c) { return (ToFloat(x[r * Size(cols) + c]) - center) * rstd[r]; };
    double sum = 0;
    double product = 0;
    for (std::size_t c = 0; c < Size(cols); ++c) {
      sum += upstream(c) * weight[c];
      product += upstream(c) * weight[c] * unit(c);
      weight_sums[c] += upstream(c) * unit(c);
      bias_sums[c] += upstream(c);
    }
    for (std::size_t c = 0; c < Size(cols); ++c) {
      const double exact = rstd[r] * (upstream(c) * weight[c] - (centers ? sum / n : 0) - unit(c) * product / n);
      // Terms as large as 10 cancel in fp32.
      constexpr double kCancelled = sizeof(T) == 2 ? 0x1p-10 : 1;
      ExpectClose(dx[r * Size(cols) + c], exact, kRounding<T> + 0x1p-18, kCancelled,
                  [&] { return "row " + std::to_string(r) + ", column " + std::to_string(c); });
    }
  }
  ASSERT_EQ(guard, FromDouble<T>(7)) << "written beyond the result";
  const double most = std::max(1.0, static_cast<double>(rows) / 8);  // of a sum on the way
  for (std::size_t c = 0; c < Size(cols); ++c) {
    ExpectClose(dweight[c], weight_sums[c], 0x1p-18, most, [&] { return "weight " + std::to_string(c); });
    if (centers) ExpectClose(dbias[c], bias_sums[c], 0x1p-18, most, [&] { return "bias " + std::to_string(c); });
  }
}

TYPED_TEST(NormTest, GradientsAgreeWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t cols : {0, 1, 3, 16, 17, 33, 260}) {
      for (const int64_t rows : {0, 1, 5}) {
        for (const bool centers : {false, true}) {
          const int64_t n = rows * cols;
          ExpectGradients(Normal<TypeParam>(n, 0, 1, 1), Normal<TypeParam>(n, 0, 1, 2), rows, cols, centers);
        }
      }
    }
  });
}

TYPED_TEST(NormTest, StreamsLargeGradients) {
  constexpr int64_t kCols = int64_t{64} << 10;  // few rows, whose sums lose little
  const int64_t rows = kStreamBytes / kCols / static_cast<int64_t>(sizeof(TypeParam)) + 1;
  const auto x = Normal<TypeParam>(rows * kCols, 0, 1, 1);
  const auto dy = Normal<TypeParam>(rows * kCols, 0, 1, 2);
  OnEveryIsa([&] {
    for (const bool centers : {false, true}) ExpectGradients(x, dy, rows, kCols, centers);
  });
}

TYPED_TEST(NormTest, StreamsGradientsOfManyShortRows) {
  constexpr int64_t kCols = 1024;
  const int64_t rows = kStreamBytes / kCols / static_cast<int64_t>(sizeof(TypeParam)) + 1;
  const auto x = Normal<TypeParam>(rows * kCols, 0, 1, 1);
  const auto dy = Normal<TypeParam>(rows * kCols, 0, 0.25, 2);  // small, since larger terms cancel in short rows
  OnEveryIsa([&] {
    for (const bool centers : {false, true}) ExpectGradients(x, dy, rows, kCols, centers);
  });
}

TYPED_TEST(NormTest, InfinityAndNanReachTheGradientsOfTheirRowAndColumn) {
  OnEveryIsa([] {
    for (const double special : {kInfinity, kNan}) {
      for (const bool in_x : {false, true}) {
        std::vector<TypeParam> x = Normal<TypeParam>(3 * 37, 0, 1, 1);
        std::vector<TypeParam> dy = Normal<TypeParam>(3 * 37, 0, 1, 2);
        (in_x ? x : dy)[37 + 36] = FromDouble<TypeParam>(special);
        ExpectGradients(x, dy, 3, 37, true);
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
