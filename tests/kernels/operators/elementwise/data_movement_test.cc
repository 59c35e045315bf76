// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/kernels/operators/elementwise/data_movement.h"
#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class EmbeddingTest : public testing::Test {};
TYPED_TEST_SUITE(EmbeddingTest, FloatTypes);

template <typename T>
void ExpectCopies(const std::vector<int64_t>& index, int64_t cols) {
  const auto table = Normal<T>(11 * cols);
  const auto rows = static_cast<int64_t>(index.size());
  std::vector<Line<T>> lines(Size(rows * cols) * sizeof(T) / kLineBytes + 1);
  T* const y = lines.data()->values;
  y[rows * cols] = FromDouble<T>(7);
  Run(Embedding<T>{.table = table.data(), .index = index.data(), .y = y, .rows = rows, .cols = cols}, ThreadPool(2));
  for (int64_t i = 0; i < rows * cols; ++i) {
    ASSERT_EQ(y[i], table[Size(index[Size(i / cols)] * cols + i % cols)]) << i << ", " << cols << " columns";
  }
  ASSERT_EQ(y[rows * cols], FromDouble<T>(7)) << "written beyond the result";
}

TYPED_TEST(EmbeddingTest, CopiesRowsBitByBit) {
  OnEveryIsa([] {
    for (const int64_t cols : {0, 1, 31, 32, 100}) {
      ExpectCopies<TypeParam>({8, 0, 3, 3, 5}, cols);
      ExpectCopies<TypeParam>({}, cols);
    }
  });
}

TYPED_TEST(EmbeddingTest, LargeResultsGoPastTheCaches) {
  OnEveryIsa([] {
    // Whole cache lines, and rows that end within one.
    for (const int64_t cols : {2048, 2048 - 24}) {
      std::vector<int64_t> index(Size(kStreamBytes / cols / 2 + 5));
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i * 7 % 11);
      ExpectCopies<TypeParam>(index, cols);
    }
  });
}

TEST(Transpose, EachElementAtItsPlaceForEveryShape) {
  OnEveryIsa([] {
    for (const int64_t rows : {1, 3, 4, 16, 17, 37, 64}) {
      for (const int64_t cols : {1, 4, 5, 15, 16, 33, 100}) {
        const auto n = Size(rows * cols);
        std::vector<float> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
        std::vector<float> y(n + 1, 0);
        kernels::Run(Transpose{.x = x.data(), .y = y.data(), .rows = rows, .cols = cols}, ThreadPool(2));
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t col = 0; col < cols; ++col) {
            ASSERT_EQ(y[Size(col * rows + row)], x[Size(row * cols + col)])
                << rows << " x " << cols << ": " << row << ", " << col;
          }
        }
        ASSERT_EQ(y.back(), 0);
      }
    }
  });
}

}  // namespace
}  // namespace roofbench::kernels
