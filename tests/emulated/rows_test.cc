// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/kernels/cuda/launch_cuda.h"
#include "tests/emulated/cuda/cuda_runtime_api.h"
#include "tests/emulated/values.h"

namespace roofbench::emulated {
namespace {

using kernels::RowType;

// Rows of a block, if they are short.
constexpr int64_t kMostShort = 256;
constexpr int64_t kShortOfBlock = 4;

constexpr int64_t OfBlock(int64_t cols) { return cols <= kMostShort ? kShortOfBlock : 1; }
// A block and a half.
constexpr int64_t RowsOf(int64_t cols) { return OfBlock(cols) + (OfBlock(cols) + 1) / 2; }

constexpr float kEpsilon = 1e-5F;
constexpr double kFp32 = 2e-6;

template <typename T>
constexpr RowType kType = std::is_same_v<T, float> ? RowType::kFp32 : RowType::kBf16;

struct RowsShape {
  int64_t cols;
  int64_t skipped = 0;  // rows before the tested ones, of whole blocks
};

class Rows : public testing::TestWithParam<RowsShape> {
 protected:
  // Calls visit(row, column of the first) for each row.
  template <typename Visit>
  std::vector<double> Exact(const Visit& visit) const {
    std::vector<double> exact(static_cast<std::size_t>(rows_ * cols_));
    for (int64_t row = 0; row < rows_; ++row) visit(exact.data() + row * cols_, row * cols_);
    return exact;
  }
  template <typename T>
  double Mean(const Operand<T>& x, int64_t first, double shift, int power) const {
    double sum = 0;
    for (int64_t i = 0; i < cols_; ++i) sum += std::pow(Value(x[static_cast<std::size_t>(first + i)]) - shift, power);
    return sum / static_cast<double>(cols_);
  }

  // y of x, from tensors that also have the skipped rows.
  template <typename T, typename Launch>
  Operand<T> Run(const Operand<T>& x, const Launch& launch) const {
    const int64_t rows = GetParam().skipped + rows_;
    const Operand<T> from(static_cast<std::size_t>(rows * cols_));
    const Operand<T> to(from.size());
    std::ranges::copy(x, from.end() - x.size());
    const BlocksFrom tested(static_cast<unsigned>(GetParam().skipped / OfBlock(cols_)));
    EXPECT_EQ(launch(to.data(), from.data(), rows), cudaSuccess);
    return Operand<T>(std::span<const T>(to.end() - x.size(), to.end()));
  }

  template <typename T>
  void RmsNorm() const {
    const auto x = Normal<T>(rows_ * cols_, 3, 1);
    const auto weight = Normal<float>(cols_, 1, 2);
    const auto y = Run(x, [&](T* to, const T* from, int64_t rows) {
      return LaunchRmsNorm(kType<T>, to, from, weight.data(), rows, cols_, kEpsilon, CallersStream());
    });
    ExpectNear(y, Exact([&](double* to, int64_t first) {
                 const double scale = 1 / std::sqrt(Mean(x, first, 0, 2) + kEpsilon);
                 for (int64_t i = 0; i < cols_; ++i) to[i] = At(x, first + i) * scale * At(weight, i);
               }),
               kFp32, "rms_norm");
  }

  template <typename T>
  void LayerNorm() const {
    const auto x = Normal<T>(rows_ * cols_, 3, 3);
    const auto weight = Normal<float>(cols_, 1, 4);
    const auto bias = Normal<float>(cols_, 0, 5);
    const auto y = Run(x, [&](T* to, const T* from, int64_t rows) {
      return LaunchLayerNorm(kType<T>, to, from, weight.data(), bias.data(), rows, cols_, kEpsilon, CallersStream());
    });
    ExpectNear(y, Exact([&](double* to, int64_t first) {
                 const double mean = Mean(x, first, 0, 1);
                 const double scale = 1 / std::sqrt(Mean(x, first, mean, 2) + kEpsilon);
                 for (int64_t i = 0; i < cols_; ++i) {
                   to[i] = (At(x, first + i) - mean) * scale * At(weight, i) + At(bias, i);
                 }
               }),
               kFp32, "layer_norm");
  }

  template <typename T>
  void Softmax(double mean) const {
    const auto x = Normal<T>(rows_ * cols_, mean, 6);
    const auto y = Run(x, [&](T* to, const T* from, int64_t rows) {
      return LaunchSoftmax(kType<T>, to, from, rows, cols_, CallersStream());
    });
    ExpectNear(y, Exact([&](double* to, int64_t first) {
                 double sum = 0;
                 for (int64_t i = 0; i < cols_; ++i) sum += std::exp(At(x, first + i));
                 for (int64_t i = 0; i < cols_; ++i) to[i] = std::exp(At(x, first + i)) / sum;
               }),
               kFp32, "softmax");
  }

 private:
  template <typename T>
  static double At(const Operand<T>& values, int64_t i) {
    return Value(values[static_cast<std::size_t>(i)]);
  }
  const int64_t cols_ = GetParam().cols;
  const int64_t rows_ = RowsOf(cols_);
};

TEST_P(Rows, RmsNorm) {
  RmsNorm<float>();
  RmsNorm<Bf16>();
}
TEST_P(Rows, LayerNorm) {
  LayerNorm<float>();
  LayerNorm<Bf16>();
}
TEST_P(Rows, Softmax) {
  // exp() of rows that are far below zero is zero, unless their own maximum is subtracted.
  for (const double mean : {3, -300}) {
    Softmax<float>(mean);
    Softmax<Bf16>(mean);
  }
}

// Columns that fill a warp, a block, all registers of one, and remainders of each.
INSTANTIATE_TEST_SUITE_P(Columns, Rows,
                         testing::Values(RowsShape{8}, RowsShape{56}, RowsShape{256}, RowsShape{264}, RowsShape{1032},
                                         RowsShape{2048}, RowsShape{4096}, RowsShape{8200}, RowsShape{32768}));
// 32 bits cannot number their elements.
INSTANTIATE_TEST_SUITE_P(Large, Rows,
                         testing::Values(RowsShape{256, int64_t{1} << 23}, RowsShape{256, int64_t{1} << 24}));

// A multiprocessor holds no more than 32 blocks.
TEST(RowsOfABlock, AreSeveralIfTheyAreShort) {
  for (const int64_t cols : {int64_t{8}, kMostShort, kMostShort + 8}) {
    const auto x = Normal<float>(RowsOf(cols) * cols, 0, 1);
    const Operand<float> y(x.size());
    ASSERT_EQ(LaunchSoftmax(RowType::kFp32, y.data(), x.data(), RowsOf(cols), cols, CallersStream()), cudaSuccess);
    EXPECT_EQ(LastLaunch().grid.x, 2) << cols;
  }
}

TEST(RowsShapes, UnsupportedOnesAreRefused) {
  float x[16] = {};
  EXPECT_EQ(LaunchSoftmax(RowType::kFp32, x, x, 1, 12, CallersStream()), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSoftmax(RowType::kFp32, x, x, 1, 2 * kernels::kMostRowColumns, CallersStream()),
            cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSoftmax(RowType::kFp32, x, x, 0, 8, CallersStream()), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace roofbench::emulated
