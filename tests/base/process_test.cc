// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process.h"

#include <gtest/gtest.h>

namespace roofbench {
namespace {

TEST(ProgramName, IsOursUntilItIsSet) {
  EXPECT_EQ(ProgramName(), "roofbench");
  SetProgramName("mine");
  EXPECT_EQ(ProgramName(), "mine");
  SetProgramName("roofbench");
}

}  // namespace
}  // namespace roofbench
