// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

std::string Problem(const Family& family) { return family.Problem(); }

// Those of its points: tests/cases/family_grid_test.cc.
TEST(Family, SaysWhatIsWrongWithARegistration) {
  FakeDevice device;
  EXPECT_EQ(Problem(TestFamily(device, 1)), "");
  EXPECT_THAT(Problem(PlainFamily("f", "")), HasSubstr("no points"));
  EXPECT_THAT(Problem(PlainFamily("f", "").Grid(Suite::kQuick, {})), HasSubstr("needs work, operands"));
}

}  // namespace
}  // namespace roofbench
