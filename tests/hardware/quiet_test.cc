// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/quiet.h"

#include <gtest/gtest.h>

#include <vector>

namespace roofbench::hardware {
namespace {

TEST(WaitUntilQuiet, EndsWithTheFirstQuietSecond) {
  std::vector<double> shares = {0.4, 0.2, 0.01, 0.5};
  std::size_t asked = 0;
  EXPECT_TRUE(WaitUntilQuiet(60, [&](double /*seconds*/) { return shares.at(asked++); }));
  EXPECT_EQ(asked, 3);
}

TEST(WaitUntilQuiet, GivesUpAfterItsTime) {
  int asked = 0;
  EXPECT_FALSE(WaitUntilQuiet(5, [&](double seconds) {
    EXPECT_EQ(seconds, 1);
    ++asked;
    return 0.5;
  }));
  EXPECT_EQ(asked, 5);
}

TEST(OthersShare, IsAShare) {
  const double share = OthersShare(0.02);
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 1);
}

}  // namespace
}  // namespace roofbench::hardware
