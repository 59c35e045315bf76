// SPDX-License-Identifier: Apache-2.0
#include "lib/base/case_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace roofbench {
namespace {

TEST(CaseLimit, APauseOfTheSupervisorDoesNotCount) {
  using std::chrono::hours;
  using std::chrono::seconds;
  const auto begin = std::chrono::steady_clock::time_point(hours(1));
  CaseLimit limit(CaseLimit::Seconds(60));
  auto now = begin + seconds(5);
  EXPECT_FALSE(limit.IsReached(begin, now));
  now += hours(9);  // the lid was closed
  EXPECT_FALSE(limit.IsReached(begin, now));
  int calls = 0;
  for (; !limit.IsReached(begin, now); ++calls) now += std::chrono::duration_cast<seconds>(limit.NextCall());
  EXPECT_GE(calls, 5) << "most of its time was left";
  // Each case has its own time.
  EXPECT_FALSE(limit.IsReached(now, now + seconds(7)));
  EXPECT_FALSE(limit.IsReached(std::nullopt, now + hours(1)));
  EXPECT_GT(limit.NextCall().count(), 0);
  EXPECT_EQ(CaseLimit(CaseLimit::Seconds(1.5)).Reason(), "not finished after 1.5 s (--case_timeout)");
}

}  // namespace
}  // namespace roofbench
