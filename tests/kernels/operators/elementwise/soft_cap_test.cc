// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/soft_cap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

TEST(SoftCap, AgreesWithFloat64AtEverySizeInPlaceToo) {
  OnEveryIsa([] {
    for (const int64_t n : {0, 1, 3, 15, 16, 17, 33, 4095, 8200}) {
      for (const auto& [cap, scale] : {std::pair{50.0F, 1.0F}, {30.0F, 0.0625F}, {0.5F, 3.0F}}) {
        const std::vector<float> x = Normal<float>(n, 0, 60);
        std::vector<float> y = x;
        kernels::Run(SoftCap{.x = y.data(), .y = y.data(), .n = n, .cap = cap, .scale = scale}, ThreadPool(2));
        for (std::size_t i = 0; i < y.size(); ++i) {
          ExpectClose(y[i], cap * std::tanh(double{x[i]} * scale / cap), 1e-6, 1e-30, std::to_string(i));
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  });
}

TEST(SoftCap, WhatIsInfiniteBecomesTheBoundAndNanStays) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3e38F, -3e38F, 0};
  OnEveryIsa([&] {
    std::vector<float> y(x.size());
    kernels::Run(SoftCap{.x = x.data(), .y = y.data(), .n = static_cast<int64_t>(x.size()), .cap = 30}, SerialFor());
    EXPECT_EQ(y[0], 30);
    EXPECT_EQ(y[1], -30);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 30);
    EXPECT_EQ(y[4], -30);
    EXPECT_EQ(y[5], 0);
  });
}

}  // namespace
}  // namespace roofbench::kernels
