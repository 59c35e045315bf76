// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/run/run_context.h"
#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

TEST(RunIdentityTest, EachPartThatDiffersIsNamed) {
  FakeDevice device;
  RunOptions options;
  options.measuring_flags = {"--seed=1"};
  const auto before = IdentityOf(options, device);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_THAT(*before, Contains(Pair("program", *HashOfFile("/proc/self/exe"))));
  EXPECT_TRUE(SameRun(*before, *before).ok());
  options.measuring_flags = {"--seed=2"};
  EXPECT_THAT(std::string(SameRun(*before, *IdentityOf(options, device)).message()),
              AllOf(HasSubstr("flags"), HasSubstr("--seed=1"), HasSubstr("--seed=2")));
  for (std::size_t part = 0; part < before->size(); ++part) {
    RunIdentity other = *before;
    other[part].second += "x";
    EXPECT_THAT(std::string(SameRun(other, *before).message()), HasSubstr(other[part].first));
  }
  EXPECT_FALSE(SameRun({}, *before).ok()) << "the parts are missing";
}

}  // namespace
}  // namespace roofbench
