// SPDX-License-Identifier: Apache-2.0
#include "lib/run/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

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

TEST(Progress, RoughTimesHaveAFittingUnit) {
  EXPECT_EQ(RoughTime(75.4), "75 s");
  EXPECT_EQ(RoughTime(600), "10 min");
  EXPECT_EQ(RoughTime(9000), "2.5 h");
  EXPECT_EQ(PlanText(1, 1, 1, 2), "1 case, about 2 s");
  EXPECT_EQ(PlanText(12, 3, 36, 75), "12 cases, 3 repetitions each, about 75 s");
  EXPECT_EQ(PlanText(12, 3, 20, 40), "12 cases, 3 repetitions each, 20 of 36 left, about 40 s");
  EXPECT_EQ(PlanText(12, 1, 8, 9), "12 cases, 8 left, about 9 s");
  EXPECT_EQ(PlanText(4, 1, 0, 0), "4 cases, all finished: nothing is measured");
}

// Ten cases of 25 s each.
std::string ProgressOfTenCases(bool on_terminal) {
  std::ostringstream out;
  double now = 100;
  Progress progress(out, on_terminal, 80, [&now] { return now; });
  progress.Announce("measuring the roofs");
  progress.Announce("");
  progress.Expect(std::vector<double>(10, 1.0), 1);
  for (std::size_t i = 0; i < 10; ++i) {
    progress.Start(i, "copy");
    now += 25;
    progress.Finish(i);
  }
  return out.str();
}

TEST(Progress, ALogHasALineAMinute) {
  EXPECT_EQ(ProgressOfTenCases(/*on_terminal=*/false),
            "[4/10] copy  3 min left\n[7/10] copy  2 min left\n[10/10] copy  25 s left\n");
}

TEST(Progress, ATerminalHasOneLineThatChanges) {
  const std::string shown = ProgressOfTenCases(/*on_terminal=*/true);
  EXPECT_THAT(shown, testing::AllOf(testing::StartsWith("\r\033[Kmeasuring the roofs\r\033[K"),
                                    testing::HasSubstr("[1/10] copy"), testing::HasSubstr("[2/10] copy  4 min left"),
                                    testing::EndsWith("\r\033[K")));
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 0);
}

TEST(Progress, LongStepsAreExpectedToTakeLong) {
  FakeDevice device;
  device.peaks.read = device.peaks.copy = 1e3;  // bytes/s
  const Family family = TestFamily(device, 1e-3);
  const std::vector<PlannedCase> plan = {PlannedOf(family, {{"n", "16"}}), PlannedOf(family, {{"n", "100000"}})};
  RunOptions options;
  options.sampling.max_time = 0.4;
  const std::vector<double> seconds = ExpectedSeconds(plan, options, device);
  ASSERT_EQ(seconds.size(), 2);
  EXPECT_GT(seconds[0], options.sampling.max_time);
  EXPECT_GT(seconds[1], 100 * seconds[0]) << "800 kB at 1 kB/s";
  device.peaks.read = device.peaks.copy = 1e12;
  const double quick = ExpectedSeconds(plan, options, device)[0];
  options.sampling.max_samples = 1;
  options.sampling.exact_samples = true;
  EXPECT_LT(ExpectedSeconds(plan, options, device)[0], quick) << "no more than one sample";
  device.peaks = {};
  const PlannedCase long_case = PlannedOf(family, {{"n", "1000000000000"}});
  EXPECT_GT(ExpectedSeconds({long_case}, options, device)[0], 100) << "8 TB, without roofs";
}

}  // namespace
}  // namespace roofbench
