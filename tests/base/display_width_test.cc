// SPDX-License-Identifier: Apache-2.0
#include "lib/base/display_width.h"

#include <gtest/gtest.h>

namespace roofbench {
namespace {

TEST(DisplayWidth, ACharacterIsAColumn) {
  EXPECT_EQ(DisplayWidth("3.37 µs"), 7);
  EXPECT_EQ(PadLeft("3.37 µs", 9), "  3.37 µs");
  EXPECT_EQ(PadRight("µs", 4), "µs  ");
  EXPECT_EQ(Clipped("µµµ", 2), "µµ");
}

}  // namespace
}  // namespace roofbench
