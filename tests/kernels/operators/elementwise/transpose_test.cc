// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/transpose.h"

#include <gtest/gtest.h>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

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
