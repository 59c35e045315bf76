// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/clock_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <string>

namespace {

long stolen_seconds = 0;  // NOLINT: what the clock below leaves out

}  // namespace

// In the place of the C library's, as a program can do it.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  now->tv_sec -= stolen_seconds;
  return result;
}

namespace roofbench::timing {
namespace {

TEST(ClockWatch, FindsAClockThatWentAtAnotherSpeed) {
  const ClockWatch watch;
  EXPECT_EQ(watch.Fault().find("while the kernel's went"), std::string::npos);
  stolen_seconds = 1;
  EXPECT_NE(watch.Fault().find("while the kernel's went"), std::string::npos);
  stolen_seconds = 0;
  EXPECT_EQ(watch.Fault().find("while the kernel's went"), std::string::npos);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ClockWatch, FindsAClockThatIsNotTheCLibrarys) {
  const std::string fault = ClockWatch().Fault();
  EXPECT_NE(fault.find("timing_test, not the C library's"), std::string::npos) << fault;
}
#endif

}  // namespace
}  // namespace roofbench::timing
