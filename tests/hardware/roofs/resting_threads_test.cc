// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/resting_threads.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace roofbench::hardware {
namespace {

// A thread beside the calling one that runs until a moment.
class Beside {
 public:
  void RunUntil(double moment) { until_ = moment; }
  bool is_running() const { return now_ < until_; }
  double now() const { return now_; }
  Watched Watch() {
    return {[this] { return is_running(); }, [this] { return now_; }, [this](double seconds) { now_ += seconds; }};
  }

 private:
  double now_ = 0;
  double until_ = 0;
};

TEST(OnceThreadsRest, AProbeWaitsForAPoolThatSpins) {
  Beside pool;
  const timing::RoofProbe probe = OnceThreadsRest(
      [&](double seconds) {
        EXPECT_FALSE(pool.is_running());
        return seconds;
      },
      pool.Watch());
  for (int chunk = 0; chunk < 3; ++chunk) {
    pool.RunUntil(pool.now() + 0.025);
    EXPECT_EQ(probe(7), 7);
  }
}

TEST(OnceThreadsRest, WhereNothingSpinsOnlyTheFirstProbeLooks) {
  Beside pool;
  const timing::RoofProbe probe = OnceThreadsRest([](double seconds) { return seconds; }, pool.Watch());
  pool.RunUntil(0.001);
  probe(1);
  const double looked = pool.now();
  EXPECT_LT(looked, 0.01);
  probe(1);
  EXPECT_EQ(pool.now(), looked);
}

TEST(OnceThreadsRest, AThreadThatNeverRestsIsNotAwaited) {
  Beside pool;
  const timing::RoofProbe probe = OnceThreadsRest([](double seconds) { return seconds; }, pool.Watch());
  pool.RunUntil(1e9);
  EXPECT_EQ(probe(1), 1);
  const double waited = pool.now();
  EXPECT_LT(waited, 0.2);
  EXPECT_EQ(probe(1), 1);
  EXPECT_EQ(pool.now(), waited) << "nor is it looked for again";
}

TEST(OthersRun, AThreadThatWaitsDoesNotRun) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::jthread waits([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    ended.wait(lock, stop, [] { return false; });
  });
  while (OthersRun()) std::this_thread::yield();  // until it waits
  std::jthread spins([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(OthersRun());
}

}  // namespace
}  // namespace roofbench::hardware
