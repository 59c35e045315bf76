// SPDX-License-Identifier: Apache-2.0
// A probe runs in bursts of about two milliseconds, or in steps that cannot be divided, and reports their median: one
// during which the scheduler took a thread away does not count, just as such a sample of a case does not.
#pragma once

#include <functional>

#include "lib/hardware/roofs/measured_roofs.h"

namespace roofbench::hardware {

struct Rates {
  double wall = 0;  // work a second: the result
  double cpu = 0;   // work a CPU second of the busiest thread: what to expect undisturbed, to plan the next burst by
};

// Runs body(thread) on a pool. Together, the threads do `work`.
Rates RunBurst(double work, int threads, const std::function<void(int thread)>& body);

// How many bursts a probe of this length has.
int BurstsIn(double seconds);

// The medians over `bursts` (1 or more) calls.
Rates MedianOfBursts(int bursts, const std::function<Rates()>& run_burst);

double WallSeconds();

// Repeats `step`, which does `work`, until the seconds of the probe are over and five times at least; its rate is that
// of the median step by the clock `now`, in seconds.
ComputeProbe MedianOfSteps(double work, std::function<void()> step, std::function<double()> now = WallSeconds);

}  // namespace roofbench::hardware
