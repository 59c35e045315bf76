// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/bursts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace roofbench::hardware {
namespace {

TEST(BurstsIn, IsOneInTwoMillisecondsAndAtLeastOne) {
  EXPECT_EQ(BurstsIn(0), 1);
  EXPECT_EQ(BurstsIn(0.0004), 1);
  EXPECT_EQ(BurstsIn(0.006), 3);
  EXPECT_EQ(BurstsIn(1e9), 1000);
}

TEST(MedianOfBursts, TakesEachMedianByItself) {
  const std::vector<Rates> series = {{10, 1}, {2, 30}, {30, 2}, {4, 40}, {5, 50}};
  std::size_t next = 0;
  const Rates odd = MedianOfBursts(5, [&] { return series[next++]; });
  EXPECT_EQ(next, 5);
  EXPECT_EQ(odd.wall, 5);
  EXPECT_EQ(odd.cpu, 30);
  next = 0;
  const Rates even = MedianOfBursts(4, [&] { return series[next++]; });
  EXPECT_EQ(even.wall, 7);
  EXPECT_EQ(even.cpu, 16);
}

TEST(RunBurst, RunsEveryThreadAndDividesTheWork) {
  std::atomic<int> calls = 0;
  const Rates rates = RunBurst(1000, 3, [&](int) { ++calls; });
  EXPECT_EQ(calls, 3);
  EXPECT_GT(rates.wall, 0);
  EXPECT_GT(rates.cpu, 0);
}

TEST(RunBurst, CountsSleepAsWallTimeOnly) {
  // The time has no upper limit, because the machine may be busy: a sleep only lasts at least as long as requested.
  const Rates rates = RunBurst(1, 1, [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  EXPECT_LE(rates.wall, 1 / 0.02);
  EXPECT_GT(rates.cpu, rates.wall);
}

// Time that the scheduler takes from some of the steps must not reach the median: neither one long absence nor several
// short ones.
TEST(MedianOfSteps, StepsThatWereTakenAwayDoNotLowerTheRate) {
  double clock = 100;
  int steps = 0;
  constexpr double kStep = 0.25;
  const auto now = [&] { return clock; };
  const ComputeProbe once = MedianOfSteps(
      10, [&] { clock += steps++ == 0 ? 40 * kStep : kStep; }, now);
  EXPECT_EQ(once(1), 10 / kStep);
  EXPECT_EQ(steps, 5) << "a probe that lost all of its seconds at once still has its steps";
  steps = 0;
  const ComputeProbe often = MedianOfSteps(
      10, [&] { clock += steps++ % 3 == 0 ? 4 * kStep : kStep; }, now);
  EXPECT_EQ(often(30), 10 / kStep);
  EXPECT_EQ(steps, 60);
}

TEST(MedianOfSteps, LastsAsLongAsAskedForAndHasStepsEnough) {
  double clock = 0;
  int steps = 0;
  const ComputeProbe probe = MedianOfSteps(
      1,
      [&] {
        clock += 0.125;
        ++steps;
      },
      [&] { return clock; });
  EXPECT_EQ(probe(1), 8);
  EXPECT_EQ(steps, 8);
  probe(0);
  EXPECT_EQ(steps, 8 + 5);
  const ComputeProbe slow = MedianOfSteps(
      1,
      [&] {
        clock += 5;
        ++steps;
      },
      [&] { return clock; });
  steps = 0;
  EXPECT_EQ(slow(1), 0.2);
  EXPECT_EQ(steps, 2);
}

}  // namespace
}  // namespace roofbench::hardware
