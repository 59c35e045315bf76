#include "lib/harness/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace roofbench {
namespace {

TEST(WatchdogTest, BarksOnceWhenACaseDoesNotEnd) {
  std::promise<void> barked;
  std::atomic<int> times = 0;
  Watchdog watchdog(0.01, [&] {
    if (++times == 1) barked.set_value();
  });
  watchdog.Arm();
  barked.get_future().wait();
  EXPECT_EQ(times, 1);
}

TEST(WatchdogTest, IsSilentWhenCasesEnd) {
  std::atomic<int> times = 0;
  {
    Watchdog watchdog(3600, [&] { ++times; });
    for (int i = 0; i < 100; ++i) {
      watchdog.Arm();
      watchdog.Disarm();
    }
  }
  EXPECT_EQ(times, 0);
}

TEST(WatchdogTest, EndsWhileArmed) {
  Watchdog watchdog(3600, [] {});
  watchdog.Arm();
}

TEST(WatchdogTest, WithoutALimitThereIsNoThread) {
  Watchdog watchdog(0, [] { FAIL(); });
  watchdog.Arm();
  watchdog.Disarm();
}

TEST(WatchdogTest, DisarmWaitsForTheEndOfTheBark) {
  // What barks writes the case's line; the case must not write another meanwhile.
  std::promise<void> begun;
  std::atomic<bool> ended = false;
  Watchdog watchdog(0.001, [&] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = true;
  });
  watchdog.Arm();
  begun.get_future().wait();
  watchdog.Disarm();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace roofbench
