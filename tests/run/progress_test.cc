// SPDX-License-Identifier: Apache-2.0
#include "lib/run/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

TEST(Progress, TheNameIsCutToTheWidth) {
  const std::string name(200, 'x');
  for (const std::size_t width : {40, 79, 99}) {
    const std::string line = ProgressLine(3, 12, name, 75, width);
    EXPECT_EQ(line.size(), width);
    EXPECT_THAT(line, testing::AllOf(testing::StartsWith("[3/12] xx"), testing::EndsWith("x  75 s left")));
  }
  EXPECT_EQ(ProgressLine(3, 12, "copy", -1, 79), "[3/12] copy");
}

TEST(Progress, LongStepsAreExpectedToTakeLong) {
  FakeDevice device;
  device.peaks.read = device.peaks.copy = 1e3;  // bytes/s
  const Family family = TestFamily(device, 1e-3);
  const std::vector<PlannedCase> plan = {Planned(family, {{"n", "16"}}), Planned(family, {{"n", "100000"}})};
  RunOptions options;
  options.sampling.max_time = 0.4;
  const std::vector<double> seconds = ExpectedSeconds(plan, options, device.peaks);
  ASSERT_EQ(seconds.size(), 2);
  EXPECT_GT(seconds[0], options.sampling.max_time);
  EXPECT_GT(seconds[1], 100 * seconds[0]) << "800 kB at 1 kB/s";
}

}  // namespace
}  // namespace roofbench
