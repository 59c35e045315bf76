// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/pressure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/hardware/fake_tree.h"

namespace roofbench::hardware {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Pressure kThirtyOnTwo = {.others_share = 0.98, .others_running = 30, .processors = 2};

TEST(Pressure, ACaseGetsItsShareOfTheProcessors) {
  EXPECT_EQ(kThirtyOnTwo.SlowerBy(2), 16);
  EXPECT_EQ(kThirtyOnTwo.SlowerBy(1), 15.5);
  EXPECT_EQ((Pressure{.others_share = 0.1, .others_running = 1, .processors = 8}.SlowerBy(2)), 1) << "never faster";
}

TEST(Pressure, TheTextSaysWhatToExpectAndTheWaysOut) {
  EXPECT_THAT(
      PressureText(kThirtyOnTwo, 3, {}),
      AllOf(HasSubstr("other programs use 98 % of the processors (30 threads run or wait for 2)"),
            HasSubstr("about 17 times as long as alone"), HasSubstr("--wait_quiet=600"), HasSubstr("--threads=1")));
  EXPECT_THAT(PressureText(kThirtyOnTwo, 2, {}),
              HasSubstr("; with --threads=1 about 16 times as long as alone, and no thread waits for another"));
  EXPECT_THAT(PressureText({.others_share = 0.6, .others_running = 1, .processors = 2}, 2, {}),
              AllOf(HasSubstr("(1 thread runs or waits for 2): a case takes about 1.5 times as long as alone"),
                    HasSubstr("--threads=1 as long as alone, and no thread")));
  EXPECT_THAT(PressureText(kThirtyOnTwo, 1, {}), Not(HasSubstr("--threads"))) << "it has one";
  EXPECT_THAT(PressureText(kThirtyOnTwo, 2, {.wait = "", .one_thread = "OMP_NUM_THREADS=1"}),
              AllOf(HasSubstr("OMP_NUM_THREADS=1"), Not(HasSubstr("--"))));
  EXPECT_EQ(PressureText({.others_share = kMostOthers, .others_running = 1, .processors = 2}, 2, {}), "");
}

class PressureTest : public FakeTree {};

TEST_F(PressureTest, ASystemThatReportsNothingHasNone) {
  EXPECT_FALSE(ReadPressure(root_.c_str()).IsHigh());
  Write({{"proc/loadavg", "no numbers"}, {"proc/stat", "cpu"}});
  EXPECT_FALSE(ReadPressure(root_.c_str()).IsHigh());
  EXPECT_FALSE(ReadPressure(std::string(1000, 'x').c_str()).IsHigh()) << "a path that is too long";
}

TEST_F(PressureTest, ThreadsThatRunAreCountedWithoutThisOne) {
  Write({{"proc/loadavg", "0.20 0.18 0.12 10001/20000 11206"}, {"proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10"}});
  const Pressure pressure = ReadPressure(root_.c_str());
  EXPECT_NEAR(pressure.others_running, 10'000, 1e-6);
  EXPECT_EQ(pressure.others_share, 0) << "no time has passed";
}

// The exit status of a child process with these variables, in which nothing has read them yet.
int StatusOf(const std::vector<std::pair<std::string, std::string>>& variables, int (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", kLeaveAlone}) unsetenv(variable);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int Yields() { return YieldWhileWaiting() && std::getenv("OMP_WAIT_POLICY") == std::string("passive") ? 1 : 0; }

TEST(YieldWhileWaiting, LeavesTheChoicesOfAUserAlone) {
  EXPECT_EQ(StatusOf({}, Yields), 1);
  EXPECT_EQ(StatusOf({{"OMP_WAIT_POLICY", "active"}}, Yields), 0);
  EXPECT_EQ(StatusOf({{"GOMP_SPINCOUNT", "7"}}, Yields), 0);
  EXPECT_EQ(StatusOf({{"KMP_BLOCKTIME", "200"}}, Yields), 0);
  EXPECT_EQ(StatusOf({{"ROOFBENCH_WAIT_POLICY", "usual"}}, Yields), 0) << "a tool compares processes";
}

}  // namespace
}  // namespace roofbench::hardware
