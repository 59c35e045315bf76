// SPDX-License-Identifier: Apache-2.0
// A probe runs in bursts of about two milliseconds and reports their median: a burst during which the scheduler took a
// thread away does not count, just as such a sample of a case does not.
#pragma once

#include <functional>

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

}  // namespace roofbench::hardware
