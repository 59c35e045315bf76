// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/sharded_memory.h"

#include <gtest/gtest.h>

#include "lib/workload/models/mlp.h"

namespace roofbench::workload {
namespace {

TEST(ShardedPeak, IsInTheUnitThatHoldsMost) {
  const std::vector<StepUnit> wide_end = {{.parameters = 40, .kept = 7}, {.parameters = 8, .kept = 5, .computes = 9}};
  // In its backward the last unit is whole, and the first one is gathered.
  EXPECT_EQ(ShardedPeak(wide_end, 2, 0), 4 + 2 * 40) << "the first one's gradients, twice";
  EXPECT_EQ(ShardedPeak(wide_end, 4, 0), 2 + 2 * 40);
  const std::vector<StepUnit> computes = {{.parameters = 40, .kept = 7}, {.parameters = 8, .kept = 5, .computes = 90}};
  EXPECT_EQ(ShardedPeak(computes, 2, 0), 7 + 40 + 8 + 90);
  EXPECT_EQ(ShardedPeak(computes, 2, 1000), 7 + 5 + 8 + 1000) << "the loss, while the last unit is gathered";
}

TEST(ShardedPeak, OfOneRankHasAllUnits) {
  const std::vector<StepUnit> units = {{.parameters = 40}, {.parameters = 8, .kept = 5, .passes = 3}};
  EXPECT_EQ(ShardedPeak(units, 1, 0), 48 + 8 + 2 * 40);
}

// Bytes at the peak of a step on 2 processes, but for the operands.
TEST(ShardedPeak, IsThatOfAMeasuredMlp) {
  const Mlp mlp{.batch = 16, .width = 128, .layers = 4};
  const double operands = 6 * 16 * 128 * 4;
  EXPECT_EQ(4 * mlp.Parameters() / 2 + operands + ShardedPeak(mlp.Units(), 2, 0), 478208);
}

}  // namespace
}  // namespace roofbench::workload
