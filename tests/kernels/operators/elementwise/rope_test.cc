// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class RopeTest : public testing::Test {};
TYPED_TEST_SUITE(RopeTest, FloatTypes);

// Turns rows with `gap` elements between them and compares each with the formula in float64.
template <typename T>
void ExpectRight(const std::vector<T>& x, int64_t rows, int64_t positions, int64_t cols, int64_t gap, bool in_place) {
  const int64_t half = cols / 2;
  const auto cosines = Normal<float>(positions * half, 0, 1, 2);
  const auto sines = Normal<float>(positions * half, 0, 1, 3);
  const int64_t stride = cols + gap;
  std::vector<Line<T>> lines(x.size() * sizeof(T) / kLineBytes + 1);
  T* const y = lines.data()->values;
  if (in_place) {
    std::ranges::copy(x, y);
  } else {
    std::fill_n(y, x.size(), FromDouble<T>(7));
  }
  Run(Rope<T>{.x = in_place ? y : x.data(),
              .y = y,
              .cosines = cosines.data(),
              .sines = sines.data(),
              .rows = rows,
              .positions = positions,
              .cols = cols,
              .x_stride = stride,
              .y_stride = stride},
      ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < stride; ++i) {
      const auto at = Size(r * stride + i);
      const auto where = [&] { return "row " + std::to_string(r) + ", column " + std::to_string(i); };
      if (i >= cols) {
        ASSERT_EQ(y[at], in_place ? x[at] : FromDouble<T>(7)) << where();
        continue;
      }
      const auto angle = Size(r % positions * half + i % half);
      const auto first = Size(r * stride + i % half);
      const double a = ToFloat(x[first]);
      const double b = ToFloat(x[first + Size(half)]);
      const double exact = i < half ? a * cosines[angle] - b * sines[angle] : b * cosines[angle] + a * sines[angle];
      // Two products may cancel in fp32.
      constexpr double kCancelled = sizeof(T) == 2 ? 0x1p-12 : 1;
      const double terms = (std::abs(a) + std::abs(b)) * (std::abs(cosines[angle]) + std::abs(sines[angle]));
      ExpectClose(y[at], exact, kRounding<T> + 0x1p-22, kCancelled * terms, where);
    }
  }
}

TYPED_TEST(RopeTest, AgreesWithFloat64AtOddSizes) {
  OnEveryIsa([] {
    for (const int64_t cols : {2, 6, 30, 34, 64, 128}) {
      for (const int64_t gap : {0, 3}) {
        for (const bool in_place : {false, true}) {
          ExpectRight(Normal<TypeParam>(31 * (cols + gap)), 31, 3, cols, gap, in_place);
        }
      }
    }
  });
}

TYPED_TEST(RopeTest, StreamsLargeResults) {
  constexpr int64_t kCols = 128;
  const int64_t rows = kStreamBytes / kCols / static_cast<int64_t>(sizeof(TypeParam)) + 1;
  const auto x = Normal<TypeParam>(rows * kCols);
  OnEveryIsa([&] { ExpectRight(x, rows, 100, kCols, 0, false); });
}

TYPED_TEST(RopeTest, NothingIsFine) {
  OnEveryIsa([] {
    ExpectRight<TypeParam>({}, 0, 4, 8, 0, false);
    ExpectRight<TypeParam>(std::vector<TypeParam>(6, FromDouble<TypeParam>(1)), 2, 4, 0, 3, false);
  });
}

TYPED_TEST(RopeTest, InfinityAndNanReachTheirPairAlone) {
  OnEveryIsa([] {
    std::vector<TypeParam> x = Normal<TypeParam>(4 * 34);
    x[3] = FromDouble<TypeParam>(kInfinity);
    x[34 + 20] = FromDouble<TypeParam>(-kInfinity);
    x[2 * 34 + 16] = FromDouble<TypeParam>(kNan);
    ExpectRight(x, 4, 2, 34, 0, false);
  });
}

}  // namespace
}  // namespace roofbench::kernels
