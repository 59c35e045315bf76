// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/sharded_memory.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(Buckets, AreFullByBytesAndHaveOneGradientAtLeast) {
  EXPECT_EQ(BucketsOf({3, 3, 4, 2, 9, 1}, 6), (std::vector<std::size_t>{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(BucketsOf({3, 3, 4, 9, 1}, 0), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(BucketsOf({3, 3, 4, 9, 1}, 100), (std::vector<std::size_t>(5)));
}

TEST(BucketedPeak, IsWhereTheGradientsOfABucketAreThereTwice) {
  std::vector<StepUnit> units = {{.gradients = {50}}, {.gradients = {10, 20}}, {.gradients = {1, 4}}};
  EXPECT_EQ(BucketedPeak(units, 30), 4 + 1 + 20 + 10 + 50) << "the last one is alone in its bucket, and not copied";
  EXPECT_EQ(BucketedPeak(units, 1000), 2 * (4 + 1 + 20 + 10 + 50));
  EXPECT_EQ(BucketedPeak(units, 60), 85) << "the others' bucket ends earlier, with 2 x 35";
  units[0].kept = 90;
  EXPECT_EQ(BucketedPeak(units, 60), 90 + 2 * 35) << "while the first unit's activations are there";
  units[1].passes = 7;
  EXPECT_EQ(BucketedPeak(units, 60), 90 + 7 + 2 * 35) << "and the gradient on its way to it";
}

TEST(BucketedPeak, CountsGradientsThatAreThereBeforeTheirTurn) {
  const auto peak = [](bool at_once) {
    return BucketedPeak({{.gradients = {100, 1}, .at_once = at_once}, {.gradients = {100}}}, 101);
  };
  EXPECT_EQ(peak(false), 2 * 101) << "the last one is alone";
  EXPECT_EQ(peak(true), 2 * 101 + 100) << "and there already when the bucket before it is complete";
}

TEST(ScatteredPeak, HasAPartOfOneBucketBesideAllGradients) {
  const std::vector<StepUnit> units = {{.gradients = {100, 10}}, {.gradients = {8, 40}}};
  EXPECT_EQ(ScatteredPeak(units, 1000, 4), 158 + 158 / 4.0);
  EXPECT_EQ(ScatteredPeak(units, 50, 4), 158 + 48 / 4.0) << "the last ones' bucket comes first";
  const std::vector<StepUnit> large_first = {{.gradients = {400, 10}}, {.gradients = {8, 40}}};
  EXPECT_EQ(ScatteredPeak(large_first, 0, 4), 400 + 400 / 4.0 + 58 / 4.0) << "parts of the others are there";
}

TEST(BucketedPeak, SpreadsWhatAUnitKeepsOverItsGradients) {
  EXPECT_EQ(BucketedPeak({{.kept = 90, .gradients = {1, 1, 1}}}, 0), 60 + 1);
}

// Bytes at the peak of a step on 2 processes, but for the operands.
TEST(ShardedPeak, IsThatOfAMeasuredMlp) {
  const Mlp mlp{.batch = 16, .width = 128, .layers = 4};
  const double operands = 6 * 16 * 128 * 4;
  EXPECT_EQ(4 * mlp.Parameters() / 2 + operands + ShardedPeak(mlp.Units(), 2, 0), 478208);
}

}  // namespace
}  // namespace roofbench::workload
