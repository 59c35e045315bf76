// SPDX-License-Identifier: Apache-2.0
// A probe runs in bursts of about two milliseconds, or in steps that cannot be divided, and reports their median: a
// burst during which the scheduler took a thread away does not count, just as such a sample of a case does not.
#pragma once

#include <functional>

namespace roofbench::hardware {

struct Rates {
  double wall = 0;  // work per second: the result
  double cpu = 0;   // work per CPU second of the busiest thread: the undisturbed rate, to plan the next burst by
};

// Runs body(thread) on a pool. The threads together do `work`.
Rates RunBurst(double work, int threads, const std::function<void(int thread)>& body);

// The number of bursts in a probe of this length.
int BurstsIn(double seconds);

// The medians over `bursts` (1 or more) calls.
Rates MedianOfBursts(int bursts, const std::function<Rates()>& run_burst);

double WallSeconds();

// Runs something for about `seconds` and returns its rate in FLOP/s; 0 if it cannot run.
using ComputeProbe = std::function<double(double seconds)>;

// Repeats `step`, which does `work`, until the seconds of the probe are over and at least five times; its rate is that
// of the median step by the clock `now`, in seconds.
ComputeProbe MedianOfSteps(double work, std::function<void()> step, std::function<double()> now = WallSeconds);

}  // namespace roofbench::hardware
