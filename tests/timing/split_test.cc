// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/split.h"

#include <gtest/gtest.h>

#include <vector>

namespace roofbench::timing {
namespace {

TEST(FindSplit, TwoStatesAreFoundWhateverTheirShares) {
  const auto first = FindSplit(std::vector<double>{202, 282, 284, 285, 287, 283});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->fast, 1);
  EXPECT_EQ(first->slow, 5);
  EXPECT_EQ(first->fast_median, 202);
  EXPECT_EQ(first->slow_median, 284);
  const auto half = FindSplit(std::vector<double>{3, 1, 3.1, 1.1});
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->fast, 2);
}

TEST(FindSplit, ScatterIsNoSplit) {
  EXPECT_FALSE(FindSplit(std::vector<double>{100, 110, 121, 133, 146}).has_value()) << "evenly spread";
  EXPECT_FALSE(FindSplit(std::vector<double>{100, 101, 102, 104, 108}).has_value()) << "within a tenth";
  EXPECT_FALSE(FindSplit(std::vector<double>{1, 1, 1, 1}).has_value());
  EXPECT_FALSE(FindSplit(std::vector<double>{1, 2, 2}).has_value()) << "too few to tell";
}

}  // namespace
}  // namespace roofbench::timing
