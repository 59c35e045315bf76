// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Change {
  std::string what;
  std::function<void()> make;
  std::function<bool()> is_made;
};

class ProcessStateTest : public testing::TestWithParam<Change> {};

TEST_P(ProcessStateTest, BringsBackWhatHasChanged) {
  const Change& change = GetParam();
  const ProcessState before;
  EXPECT_THAT(before.Restore(), IsEmpty());
  change.make();
  EXPECT_TRUE(change.is_made());
  EXPECT_THAT(before.Restore(), ElementsAre(change.what));
  EXPECT_FALSE(change.is_made());
  EXPECT_THAT(before.Restore(), IsEmpty());
}

bool IsBlocked(int signal) {
  sigset_t blocked{};
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

rlim_t SoftLimitOfCores() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  return limit.rlim_cur;
}

INSTANTIATE_TEST_SUITE_P(Each, ProcessStateTest,
                         testing::Values(Change{"the working folder", [] { std::filesystem::current_path("/"); },
                                                [] { return std::filesystem::current_path() == "/"; }},
                                         Change{"the mask of new files", [] { umask(0123); },
                                                [] {
                                                  const mode_t mask = umask(0);
                                                  umask(mask);
                                                  return mask == 0123;
                                                }},
                                         Change{"the limits of resources",
                                                [] {
                                                  rlimit limit{};
                                                  getrlimit(RLIMIT_CORE, &limit);
                                                  limit.rlim_cur = limit.rlim_cur == 4096 ? 0 : 4096;
                                                  setrlimit(RLIMIT_CORE, &limit);
                                                },
                                                [limit = SoftLimitOfCores()] { return SoftLimitOfCores() != limit; }},
                                         Change{"the blocked signals",
                                                [] {
                                                  sigset_t one{};
                                                  sigaddset(&one, SIGUSR1);
                                                  pthread_sigmask(SIG_BLOCK, &one, nullptr);
                                                },
                                                [] { return IsBlocked(SIGUSR1); }},
                                         Change{"the handlers of signals", [] { std::signal(SIGTERM, SIG_IGN); },
                                                [] {
                                                  struct sigaction now {};
                                                  sigaction(SIGTERM, nullptr, &now);
                                                  return now.sa_handler == SIG_IGN;
                                                }},
                                         Change{"the rounding or the denormals of arithmetic",
                                                [] { fesetround(FE_UPWARD); },
                                                [] { return fegetround() == FE_UPWARD; }}));

class ThreadsAtWork : public testing::Test {
 protected:
  ThreadsAtWork() {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) unsetenv(name);
  }
  ~ThreadsAtWork() override {
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

TEST_F(ThreadsAtWork, AreThoseThatWereStarted) {
  const ProcessState before;
  EXPECT_EQ(before.ThreadsAtWork(), 0);
  Start(/*works=*/true);
  EXPECT_EQ(before.ThreadsAtWork(), 1);
  EXPECT_EQ(ProcessState().ThreadsAtWork(), 0) << "of an earlier case";
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_EQ(before.ThreadsAtWork(), 0) << "it may be a pool that is told to spin";
  unsetenv("OMP_WAIT_POLICY");
}

TEST_F(ThreadsAtWork, AreNoneThatWait) {
  const ProcessState before;
  Start(/*works=*/false);
  EXPECT_EQ(before.ThreadsAtWork(), 0);
}

}  // namespace
}  // namespace roofbench
