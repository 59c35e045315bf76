// SPDX-License-Identifier: Apache-2.0
#include "lib/device/injected_delay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lib/hardware/roofs/compute_loops.h"

namespace roofbench {
namespace {

double SecondsOf(const hardware::ComputeLoop& loop, int64_t iterations) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    [[maybe_unused]] volatile double sink = loop.run(iterations);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

const hardware::ComputeLoop& Loop() { return hardware::ComputeLoops().front(); }

}  // namespace

InjectedDelay::InjectedDelay(double seconds) {
  constexpr int64_t kTrial = 100'000;
  const double per_iteration = SecondsOf(Loop(), kTrial) / kTrial;
  iterations_ = std::max<int64_t>(1, std::llround(seconds / per_iteration));
}

void InjectedDelay::Run() const { [[maybe_unused]] volatile double sink = Loop().run(iterations_); }

}  // namespace roofbench
