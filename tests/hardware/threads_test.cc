// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace roofbench::hardware {
namespace {

class StartedThreadsTest : public testing::Test {
 protected:
  StartedThreadsTest() {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) unsetenv(name);
  }
  ~StartedThreadsTest() override {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void Start(bool works) {
    thread_ = std::thread([this, works] {
      runs_ = true;
      while (!ended_) {
        if (!works) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    while (!runs_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> runs_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

TEST_F(StartedThreadsTest, AreThoseThatWereStarted) {
  const StartedThreads before;
  EXPECT_EQ(before.AtWork(), 0);
  Start(/*works=*/true);
  EXPECT_EQ(before.AtWork(), 1);
  EXPECT_EQ(StartedThreads().AtWork(), 0) << "of an earlier case";
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_EQ(before.AtWork(), 0) << "it may be a pool that is told to spin";
  unsetenv("OMP_WAIT_POLICY");
}

TEST_F(StartedThreadsTest, AreNoneThatWait) {
  const StartedThreads before;
  Start(/*works=*/false);
  EXPECT_EQ(before.AtWork(), 0);
}

}  // namespace
}  // namespace roofbench::hardware
