// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/axis_override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ValuesOf, ARangeIsItsWholeNumbers) {
  EXPECT_THAT(*ValuesOf("256:1024:x2"), ElementsAre("256", "512", "1024"));
  EXPECT_THAT(*ValuesOf("100:350:+100"), ElementsAre("100", "200", "300"));
  EXPECT_THAT(*ValuesOf("bf16"), ElementsAre("bf16"));
  EXPECT_THAT(*ValuesOf("4611686018427387904:9223372036854775807:x2"), ElementsAre("4611686018427387904"));
}

TEST(ValuesOf, AnotherRangeIsRefused) {
  for (const char* bad : {"1:9", "0:8:x2", "8:1:x2", "1:8:x1", "1:8:+0", "1:8:*2", "a:8:x2", "1:8:x", "1:2:x2:3"}) {
    EXPECT_THAT(std::string(ValuesOf(bad).status().message()), HasSubstr("is not a range")) << bad;
  }
  EXPECT_THAT(std::string(ValuesOf("1:1001:+1").status().message()), HasSubstr("more than 1000 values"));
  EXPECT_EQ(ValuesOf("1:1000:+1")->size(), 1000U);
}

TEST(ParseAxisOverride, NamesAFamilyOrAll) {
  const auto one = ParseAxisOverride("gemv.n=1,4:16:x2,", "--list");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->family, "gemv");
  EXPECT_EQ(one->axis, "n");
  EXPECT_THAT(one->values, ElementsAre("1", "4", "8", "16"));
  EXPECT_EQ(ParseAxisOverride("n=a=b", "")->family, "");
  EXPECT_THAT(ParseAxisOverride("n=a=b", "")->values, ElementsAre("a=b"));
  for (const char* bad : {"", "n", "n=", "=1", "f.=1", "n=,"}) {
    EXPECT_EQ(std::string(ParseAxisOverride(bad, "--list").status().message()),
              "expected [family.]name=v1,v2,…; --list lists the names")
        << bad;
  }
}

}  // namespace
}  // namespace roofbench
