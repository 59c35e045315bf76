// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

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

}  // namespace
}  // namespace roofbench
