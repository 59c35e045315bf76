// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/operator_clock.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>

#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWork = std::chrono::milliseconds(2);

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

void Work() {
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < kWork) {
  }
}

void Operator() {
  at::RecordFunction function(at::RecordScope::FUNCTION);
  if (function.isActive()) function.before("test::operator");
  Work();
}

TEST(OperatorClock, CountsOperatorsAndKernelsOfOursAndNoOtherRange) {
  const OperatorClock clock;
  {
    const Range part("block", 3);
    Work();
  }
  EXPECT_EQ(clock.seconds(), 0);
  Operator();
  const double one = clock.seconds();
  EXPECT_GE(one, Seconds(kWork));
  {
    const Range kernel("roofbench::gelu");
    Work();
  }
  EXPECT_GE(clock.seconds(), one + Seconds(kWork));
}

TEST(OperatorClock, WhatIsInsideOfAnotherCountsOnce) {
  const Clock::time_point start = Clock::now();
  const OperatorClock clock;
  Clock::duration inside;
  {
    const Range kernel("roofbench::attention");
    const Clock::time_point begin = Clock::now();
    Operator();
    Operator();
    inside = Clock::now() - begin;
  }
  const double counted = clock.seconds();
  EXPECT_GE(counted, Seconds(inside));
  EXPECT_LE(counted, Seconds(Clock::now() - start));
}

TEST(OperatorClock, BeginsAnew) {
  Operator();
  {
    const OperatorClock before;
    Operator();
  }
  Operator();
  const OperatorClock clock;
  EXPECT_EQ(clock.seconds(), 0);
}

}  // namespace
}  // namespace roofbench::observe
