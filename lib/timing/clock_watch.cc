// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/clock_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace roofbench::timing {
namespace {

double ClockSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double KernelSeconds() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

ClockWatch::Reading ClockWatch::Read() {
  constexpr int kTries = 5;  // another thread may run between two readings
  Reading best{.apart = INFINITY};
  for (int i = 0; i < kTries; ++i) {
    const double before = ClockSeconds();
    const double kernel = KernelSeconds();
    const double after = ClockSeconds();
    if (after - before < best.apart) best = {(before + after) / 2, kernel, after - before};
  }
  return best;
}

std::string ClockWatch::Fault() const {
  constexpr double kMostApart = 1e-3;
  const Reading end = Read();
  const double clock = end.clock - begin_.clock;
  const double kernel = end.kernel - begin_.kernel;
  if (std::abs(clock - kernel) <= kMostApart + begin_.apart + end.apart) return "";
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "the clock of this process went %.3g s while the kernel's went %.3g s: it was replaced", clock, kernel);
  return text.data();
}

}  // namespace roofbench::timing
