// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/clock_watch.h"

#include <dlfcn.h>
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

// The program or library whose clock_gettime this process calls, unless it is the C library's.
std::string OtherClock() {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  Dl_info clock{};
  Dl_info library{};
  // As any module would find it; a program's own comes first.
  if (dladdr(dlsym(RTLD_DEFAULT, "clock_gettime"), &clock) == 0) return "";
  if (dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &library) == 0) return "";
  if (clock.dli_fbase != library.dli_fbase) return clock.dli_fname;
#endif
  return "";
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
  if (std::abs(clock - kernel) <= kMostApart + begin_.apart + end.apart) {
    const std::string where = OtherClock();
    if (where.empty()) return "";
    return "clock_gettime of this process is that of " + where + ", not the C library's: it could lend steps time";
  }
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "the clock of this process went %.3g s while the kernel's went %.3g s: it was replaced", clock, kernel);
  return text.data();
}

}  // namespace roofbench::timing
