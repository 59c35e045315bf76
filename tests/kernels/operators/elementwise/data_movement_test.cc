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
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

template <typename T>
void ExpectCopies(int64_t vocabulary, const std::vector<int64_t>& index, int64_t cols, int64_t gap, bool aligned) {
  const int64_t stride = cols + gap;
  const auto table = Normal<T>(vocabulary * stride);
  const auto rows = static_cast<int64_t>(index.size());
  // Space to align to a cache line.
  std::vector<T> memory(static_cast<std::size_t>(rows * stride + kLineBytes), FromDouble<T>(7));
  T* y = memory.data();
  while (aligned && !IsLineAligned(y)) ++y;
  Run(Embedding<T>{.table = table.data(),
                   .index = index.data(),
                   .y = y,
                   .rows = rows,
                   .cols = cols,
                   .table_stride = stride,
                   .y_stride = stride},
      ThreadPool(2));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < stride; ++c) {
      const T expected = c < cols ? table[static_cast<std::size_t>(index[static_cast<std::size_t>(r)] * stride + c)]
                                  : FromDouble<T>(7);
      ASSERT_EQ(y[r * stride + c], expected) << "row " << r << ", column " << c;
    }
  }
}

TYPED_TEST(EmbeddingTest, CopiesRowsBitByBit) {
  OnEveryIsa([] {
    for (const int64_t cols : {0, 1, 31, 32, 100}) {
      ExpectCopies<TypeParam>(9, {8, 0, 3, 3, 5}, cols, 0, false);
      ExpectCopies<TypeParam>(9, {8, 0, 3, 3, 5}, cols, 2, false);
      ExpectCopies<TypeParam>(9, {}, cols, 0, false);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TYPED_TEST(EmbeddingTest, LargeResultsGoPastTheCaches) {
  OnEveryIsa([] {
    // Whole cache lines, and rows that end within one.
    for (const int64_t cols : {2048, 2048 - 24}) {
      std::vector<int64_t> index(static_cast<std::size_t>(kStreamBytes / cols / 2 + 5));
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i * 7 % 11);
      ExpectCopies<TypeParam>(11, index, cols, 2048 - cols, true);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Transpose, EachElementAtItsPlaceForEveryShape) {
  OnEveryIsa([] {
    for (const int64_t rows : {1, 3, 4, 16, 17, 37, 64}) {
      for (const int64_t cols : {1, 4, 5, 15, 16, 33, 100}) {
        const auto n = static_cast<std::size_t>(rows * cols);
        std::vector<float> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
        std::vector<float> y(n + 1, 0);
        kernels::Run(Transpose{.x = x.data(), .y = y.data(), .rows = rows, .cols = cols}, ThreadPool(2));
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t col = 0; col < cols; ++col) {
            ASSERT_EQ(y[static_cast<std::size_t>(col * rows + row)], x[static_cast<std::size_t>(row * cols + col)])
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
