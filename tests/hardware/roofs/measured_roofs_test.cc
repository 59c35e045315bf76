// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/measured_roofs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench::hardware {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(MixOf, PairsReadsAndWritesWithinAnOperation) {
  workload::Cost cost;
  cost.operations = {{.bytes_read = 10, .bytes_written = 4, .repeat = 2},
                     {.bytes_read = 1, .bytes_written = 6},
                     {.bytes_read = 3, .bytes_updated = 7}};
  const TrafficMix mix = MixOf(cost);
  EXPECT_DOUBLE_EQ(mix.copy, 2 * 2 * 4 + 2 * 1);
  EXPECT_DOUBLE_EQ(mix.read, 2 * 6 + 3);
  EXPECT_DOUBLE_EQ(mix.write, 5);
  EXPECT_DOUBLE_EQ(mix.update, 14);
  EXPECT_DOUBLE_EQ(mix.copy + mix.read + mix.write + mix.update, cost.Bytes());
}

TEST(SharesOf, AddUpToOneWithoutWhatHardlyCounts) {
  EXPECT_THAT(SharesOf({.read = 3, .copy = 1}), ElementsAre(0.75, 0.25, 0, 0));
  EXPECT_THAT(SharesOf({.read = 1, .copy = 49, .update = 49, .write = 1}),
              ElementsAre(0, DoubleEq(0.5), DoubleEq(0.5), 0));
  EXPECT_FALSE(MovesNothing(SharesOf({.write = 1e-9})));
  EXPECT_TRUE(MovesNothing(SharesOf({})));
}

TEST(Rate, IsThatOfItsStream) {
  workload::Peaks peaks{.read = 1, .copy = 2, .update = 3, .write = 4};
  EXPECT_EQ(Rate(peaks, StreamKind::kUpdate), 3);
  Rate(peaks, StreamKind::kWrite) = 5;
  EXPECT_EQ(peaks.write, 5);
}

}  // namespace
}  // namespace roofbench::hardware
