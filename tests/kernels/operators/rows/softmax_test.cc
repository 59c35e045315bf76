// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kScale = 0.25;

// The softmax of a row in float64.
template <typename T>
struct Exact {
  Exact(const T* row, int64_t cols) : x(row) {
    for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, double{ToFloat(x[c])});
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(ToFloat(x[c]) - largest);
  }
  double Probability(int64_t c) const { return std::exp(ToFloat(x[c]) - largest) / sum; }
  // An fp32 exponential of a distance d is off by about d roundings.
  double Error(int64_t c) const {
    const double distance = largest - ToFloat(x[c]);
    return std::isfinite(distance) ? distance * 0x1p-23 : 0;
  }
  const T* x;
  double largest = -kInfinity;
  double sum = 0;
};

std::string Where(int64_t row, int64_t col) { return "row " + std::to_string(row) + ", column " + std::to_string(col); }

template <typename T>
void ExpectSoftmax(const std::vector<T>& x, int64_t rows, int64_t cols) {
  std::vector<T> y(x.size() + 1, FromDouble<T>(7));
  Run(Softmax<T>{.x = x.data(), .y = y.data(), .rows = rows, .cols = cols}, ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    const Exact<T> exact(x.data() + r * cols, cols);
    for (int64_t c = 0; c < cols; ++c) {
      // Below 1e-38 there is only zero.
      ExpectClose(y[Size(r * cols + c)], exact.Probability(c), kRounding<T> + kApproximation<T> + exact.Error(c), 1e-35,
                  [&] { return Where(r, c); });
    }
  }
  ASSERT_EQ(y.back(), FromDouble<T>(7)) << "written beyond the result";
}

enum class Gradient { kNone, kApart, kInPlace };

template <typename T>
void ExpectCrossEntropy(const std::vector<T>& x, const std::vector<int64_t>& target, int64_t cols, Gradient wanted) {
  const auto rows = static_cast<int64_t>(target.size());
  std::vector<float> loss(target.size(), 7);
  std::vector<T> gradient = wanted == Gradient::kInPlace ? x : std::vector<T>(x.size(), FromDouble<T>(7));
  gradient.push_back(FromDouble<T>(7));
  Run(CrossEntropy<T>{.x = wanted == Gradient::kInPlace ? gradient.data() : x.data(),
                      .target = target.data(),
                      .loss = loss.data(),
                      .gradient = wanted == Gradient::kNone ? nullptr : gradient.data(),
                      .scale = kScale,
                      .rows = rows,
                      .cols = cols},
      ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    const Exact<T> exact(x.data() + r * cols, cols);
    const int64_t right = target[Size(r)];
    ExpectClose(loss[Size(r)], std::log(exact.sum) + (exact.largest - ToFloat(exact.x[right])), 0x1p-19, 1,
                "row " + std::to_string(r));
    for (int64_t c = 0; c < cols && wanted != Gradient::kNone; ++c) {
      // At the target a probability near 1 cancels.
      ExpectClose(gradient[Size(r * cols + c)], (exact.Probability(c) - (c == right ? 1 : 0)) * kScale,
                  kRounding<T> + 0x1p-18 + exact.Error(c), c == right ? 0x1p-3 : 1e-35, [&] { return Where(r, c); });
    }
  }
  ASSERT_EQ(gradient.back(), FromDouble<T>(7)) << "written beyond the result";
}

template <typename T>
class SoftmaxTest : public testing::Test {};
TYPED_TEST_SUITE(SoftmaxTest, FloatTypes);

TYPED_TEST(SoftmaxTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t rows : {0, 1, 2, 5}) {
      for (const int64_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 63, 200, 1000, 1024}) {
        ExpectSoftmax(Normal<TypeParam>(rows * cols, 0, 3), rows, cols);
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, LargeAndNegativeLogitsLoseNothing) {
  OnEveryIsa([] {
    for (const double mean : {1e4, -1e4, -50.0}) ExpectSoftmax(Normal<TypeParam>(3 * 100, mean, 20), 3, 100);
  });
}

// Includes a fully masked row.
TYPED_TEST(SoftmaxTest, EqualLogitsOfAnySizeShareTheRow) {
  OnEveryIsa([] {
    for (double size = 1; size < 3e38; size *= 3) {
      for (const double largest : {size, -size}) {
        std::vector<TypeParam> x(100, FromDouble<TypeParam>(largest));
        x[7] = FromDouble<TypeParam>(largest < 0 ? 1.1 * largest : 0);
        ExpectSoftmax(x, 1, 100);
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, InfinitiesAndNansAreThoseOfTheFormula) {
  OnEveryIsa([] {
    for (const double value : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (const int64_t at : {0, 40, 66}) {
        for (const double mean : {0.0, -100.0}) {
          std::vector<TypeParam> x = Normal<TypeParam>(3 * 67, mean);
          x[Size(67 + at)] = FromDouble<TypeParam>(value);
          ExpectSoftmax(x, 3, 67);
        }
      }
    }
    // The softmax of a row of -infinity alone is undefined.
    ExpectSoftmax(std::vector<TypeParam>(40, FromDouble<TypeParam>(-kInfinity)), 1, 40);
  });
}

TYPED_TEST(SoftmaxTest, CrossEntropyAgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const Gradient wanted : {Gradient::kNone, Gradient::kApart, Gradient::kInPlace}) {
      for (const int64_t cols : {1, 2, 15, 16, 17, 33, 65, 260}) {
        ExpectCrossEntropy(Normal<TypeParam>(4 * cols, 0, 4), {0, cols - 1, cols / 2, cols / 3}, cols, wanted);
      }
      ExpectCrossEntropy<TypeParam>({}, {}, 8, wanted);
    }
  });
}

// Rows of an odd length, each of which begins elsewhere in a cache line.
TYPED_TEST(SoftmaxTest, CrossEntropyStreamsLargeGradients) {
  constexpr int64_t kCols = 4099;
  const int64_t rows = kStreamBytes / kCols / static_cast<int64_t>(sizeof(TypeParam)) + 1;
  const auto x = Normal<TypeParam>(rows * kCols, 0, 2);
  std::vector<int64_t> target;
  for (int64_t r = 0; r < rows; ++r) target.push_back(r * 37 % kCols);
  OnEveryIsa([&] { ExpectCrossEntropy(x, target, kCols, Gradient::kApart); });
}

TYPED_TEST(SoftmaxTest, CrossEntropyOfLogitsFarFromZeroDoesNotOverflow) {
  OnEveryIsa([] {
    for (const double mean : {-3e4, 3e4}) {
      for (const Gradient wanted : {Gradient::kNone, Gradient::kApart}) {
        ExpectCrossEntropy(Normal<TypeParam>(3 * 40, mean, 300), {0, 20, 39}, 40, wanted);
      }
    }
  });
}

// The first elements of a row are no measure of the others, whose exponentials would overflow or lose digits.
TYPED_TEST(SoftmaxTest, CrossEntropyOfRowsThatBeginFarFromTheirMaximum) {
  OnEveryIsa([] {
    for (const double beginning : {-kInfinity, -3e4, -140.0, -40.0, 40.0, 140.0, 3e4}) {
      for (const double others : {-140.0, -95.0, 5.0, 85.0}) {
        std::vector<TypeParam> x = Normal<TypeParam>(2 * 260, others, 4);
        std::fill_n(x.begin() + 260, 150, FromDouble<TypeParam>(beginning));
        for (const Gradient wanted : {Gradient::kNone, Gradient::kApart}) ExpectCrossEntropy(x, {7, 259}, 260, wanted);
      }
    }
  });
}

// ATen's classes: a NaN, +infinity, or nothing but -infinity make a NaN row; a single -infinity is an impossible class,
// whose loss is infinite.
TYPED_TEST(SoftmaxTest, CrossEntropyOfInfinityAndNanIsOfLibTorchsClass) {
  OnEveryIsa([] {
    for (const double special : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (const int64_t where : {0, 18, 36}) {
        std::vector<TypeParam> x = Normal<TypeParam>(3 * 37);
        x[Size(37 + where)] = FromDouble<TypeParam>(special);
        std::fill(x.begin() + 2 * 37, x.end(), FromDouble<TypeParam>(-kInfinity));
        for (const Gradient wanted : {Gradient::kNone, Gradient::kApart}) {
          ExpectCrossEntropy(x, {3, 18, 5}, 37, wanted);
        }
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
