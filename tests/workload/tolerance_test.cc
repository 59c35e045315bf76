// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/tolerance.h"

#include <gtest/gtest.h>

#include <limits>

namespace roofbench::workload {
namespace {

TEST(Tolerance, FollowsFromTheDtypeAndTheSum) {
  EXPECT_DOUBLE_EQ(RelativeTolerance({.dtype = Dtype::kBf16, .reduction = 4096}), 0x1p-6 + 4 * 0x1p-23 * 64);
  EXPECT_DOUBLE_EQ(RelativeTolerance({.dtype = Dtype::kBf16, .roundings = 4, .amplification = 3}),
                   6 * (0x1p-6 + 4 * 0x1p-23));
  EXPECT_EQ(RelativeTolerance({.dtype = Dtype::kInt8, .reduction = 4096}), 0);
  EXPECT_DOUBLE_EQ(RelativeTolerance({.dtype = Dtype::kFp64, .reduction = 16}), 18 * 0x1p-52);
}

TEST(Tolerance, HasRoomForTheRoundingOfTheReference) {
  EXPECT_EQ(WithRoomForRounding(0.01, 0), 0.01);
  EXPECT_EQ(WithRoomForRounding(0.01, 0.001), 0.01);
  EXPECT_DOUBLE_EQ(WithRoomForRounding(0.01, 0.1), 0.3);
  EXPECT_EQ(WithRoomForRounding(0.01, 10), 1);
  EXPECT_EQ(WithRoomForRounding(0.01, std::numeric_limits<double>::quiet_NaN()), 0.01);
}

}  // namespace
}  // namespace roofbench::workload
