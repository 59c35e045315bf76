// SPDX-License-Identifier: Apache-2.0
// Children that end in every way, and the parent's verdict on each. A child's code runs in a copy of this process and
// must leave it by _exit: its effects are in the shared state and in the exit status.

#include "lib/run/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() { sigprocmask(SIG_SETMASK, nullptr, &mask_); }
  // Discards the signals that a finished run left pending, and restores the mask.
  ~SupervisorTest() override {
    for (const int signal : {SIGINT, SIGTERM}) {
      std::signal(signal, SIG_IGN);  // discards pending ones
      std::signal(signal, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

  // The status of a run whose children do these, one after another; the last one's action repeats.
  int Run(const std::vector<std::function<void()>>& children, double case_timeout = 0) {
    return Supervise(state_, {.case_timeout = case_timeout,
                              .run = [&]() -> int {
                                children[std::min(failed_.size(), children.size() - 1)]();
                                _exit(0);
                              },
                              .fail =
                                  [&](const RunningCase& running, const std::string& reason) {
                                    failed_.push_back(running.index);
                                    reasons_.push_back(reason);
                                    return fail_status_;
                                  }});
  }

  SharedState state_{100};
  std::vector<std::size_t> failed_;  // seen by the children that follow
  std::vector<std::string> reasons_;
  absl::Status fail_status_;

 private:
  sigset_t mask_{};
};

TEST_F(SupervisorTest, ForwardsTheStatusOfAnOrderlyEnd) {
  EXPECT_EQ(Run({[] { _exit(0); }}), 0);
  EXPECT_EQ(Run({[] { _exit(2); }}), 2);
  EXPECT_THAT(failed_, IsEmpty());
}

// A sanitizer installs its own handlers.
void DieBy(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

TEST_F(SupervisorTest, TheEndOfTheProcessInACaseIsItsFailureAndAnotherChildContinues) {
  const struct {
    std::function<void()> end;
    const char* reason;
  } table[] = {{[] { DieBy(SIGSEGV); }, "crashed (SIGSEGV, Segmentation fault)"},
               {[] { DieBy(SIGABRT); }, "crashed (SIGABRT, Aborted)"},
               {[] { DieBy(SIGBUS); }, "crashed (SIGBUS, Bus error)"},
               {[] { DieBy(SIGFPE); }, "crashed (SIGFPE, Floating point exception)"},
               {[] { DieBy(SIGILL); }, "crashed (SIGILL, Illegal instruction)"},
               {[] { raise(SIGKILL); }, "killed (SIGKILL), most likely by the system for memory"},
               {[] { _exit(7); }, "ended with exit status 7"}};
  std::vector<std::function<void()>> children;
  std::vector<std::string> expected;
  for (const auto& row : table) {
    children.emplace_back([this, i = children.size(), &row] {
      state_.BeginCase(i, 2);
      row.end();
    });
    expected.emplace_back(row.reason);
  }
  children.emplace_back([] { _exit(5); });
  EXPECT_EQ(Run(children), 5);
  EXPECT_THAT(failed_, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reasons_, expected);
}

TEST_F(SupervisorTest, AHundredCrashesInARowAreAHundredFailedCases) {
  constexpr std::size_t kCases = 100;
  EXPECT_EQ(Run({[this] {
              if (failed_.size() == kCases) _exit(1);
              state_.BeginCase(failed_.size(), 0);
              raise(SIGKILL);
            }}),
            1);
  std::vector<std::size_t> all(kCases);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(failed_, all);
}

TEST_F(SupervisorTest, AHangingCaseIsEndedAtItsDeadline) {
  EXPECT_EQ(Run({[this] {
                   state_.BeginCase(4, 0);
                   while (true) pause();
                 },
                 [] { _exit(0); }},
                0.05),
            0);
  EXPECT_THAT(failed_, ElementsAre(4));
  EXPECT_THAT(reasons_, ElementsAre("not finished after 0.05 s (--case_timeout)"));
}

TEST_F(SupervisorTest, CasesThatEndInTimeAreLeftAlone) {
  EXPECT_EQ(Run({[this] {
                  for (std::size_t i = 0; i < 1000; ++i) {
                    state_.BeginCase(i % 10, 0);
                    state_.EndCase();
                  }
                }},
                3600),
            0);
  EXPECT_THAT(failed_, IsEmpty());
}

TEST_F(SupervisorTest, TwoCrashesOutsideOfCasesEndTheRun) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({[] { raise(SIGKILL); }}), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("another one continues"), HasSubstr("the run ends here")));
  EXPECT_THAT(failed_, IsEmpty());
}

TEST_F(SupervisorTest, CrashesBetweenCasesThatMakeProgressDoNotEndTheRun) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({[this] {
              const std::size_t next = state_.newest().first + 1;
              if (next == 9) _exit(0);
              state_.BeginCase(next, 0);
              state_.EndCase();
              raise(SIGKILL);
            }}),
            0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("another one continues"));
  EXPECT_THAT(said, testing::Not(HasSubstr("the run ends here")));
}

TEST_F(SupervisorTest, AChildMayRequestARespawn) {
  EXPECT_EQ(Run({[this] {
              if (state_.signal() != 0) _exit(9);  // the successor
              state_.Interrupt(1);
              state_.RequestRespawn();
              _exit(1);
            }}),
            9);
  EXPECT_THAT(failed_, IsEmpty());
}

// A thread such as LibTorch starts, without the mask of the thread that waits: the kernel gives it the signal of a
// child that ends while the other does not wait.
TEST_F(SupervisorTest, AnotherThreadDoesNotTakeTheEndOfAChild) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    while (!done) std::this_thread::yield();
  });
  bool is_known = false;
  const auto fail = [&](const RunningCase& /*running*/, const std::string& /*reason*/) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGCHLD);
    const timespec now{};
    while (sigtimedwait(&one, nullptr, &now) > 0) {
    }
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!is_known && std::chrono::steady_clock::now() < deadline) {
      sigset_t pending;
      sigpending(&pending);
      is_known = sigismember(&pending, SIGCHLD) == 1;
    }
    failed_.push_back(0);
    return absl::OkStatus();
  };
  const auto run = [&]() -> int {
    if (failed_.empty()) {
      state_.BeginCase(0, 0);
      raise(SIGKILL);
    }
    _exit(3);
  };
  EXPECT_EQ(Supervise(state_, {.run = run, .fail = fail}), 3);
  EXPECT_TRUE(is_known);
  done = true;
  other.join();
}

TEST_F(SupervisorTest, ACrashAfterEverythingIsWrittenIsNotRepeated) {
  EXPECT_EQ(Run({[this] {
              state_.SetFinished();
              raise(SIGKILL);
            }}),
            1);
}

TEST_F(SupervisorTest, ARowThatCannotBeWrittenEndsTheRun) {
  fail_status_ = absl::UnavailableError("the disk is full");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({[this] {
              state_.BeginCase(0, 0);
              raise(SIGKILL);
            }}),
            1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot continue: the disk is full"));
}

TEST_F(SupervisorTest, ASignalIsNotedAndTheChildEndsByItself) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({[this] {
              kill(getppid(), SIGTERM);
              while (state_.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              _exit(128 + state_.signal());
            }}),
            128 + SIGTERM);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("signal 15"));
}

TEST_F(SupervisorTest, ACaseWithoutSamplesDoesNotKeepASignalWaiting) {
  EXPECT_EQ(Run({[this] {
              if (state_.signal() != 0) _exit(7);  // the successor, which writes what is measured
              state_.BeginCase(3, 0);
              kill(getppid(), SIGTERM);
              while (true) pause();
            }}),
            7);
  EXPECT_THAT(failed_, IsEmpty()) << "the case did not fail";
}

TEST_F(SupervisorTest, ASampleIsWaitedFor) {
  EXPECT_EQ(Run({[this] {
              if (state_.signal() != 0) _exit(7);
              state_.BeginCase(3, 0);
              state_.SetSampling();
              kill(getppid(), SIGTERM);
              while (state_.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              std::this_thread::sleep_for(2 * kUnsampledGrace);
              state_.EndCase();
              _exit(9);
            }}),
            9);
}

TEST_F(SupervisorTest, ASignalWhileTheRoofsAreMeasuredEndsTheRunAtOnce) {
  EXPECT_EXIT(Run({[this] {
                state_.SetPreparing(true);
                kill(getppid(), SIGTERM);
                while (true) pause();
              }}),
              testing::KilledBySignal(SIGTERM), "signal 15 while the roofs were measured");
}

TEST_F(SupervisorTest, ASignalToTheWholeGroupIsOneSignal) {
  EXPECT_EQ(Run({[this] {
              // As a terminal and `timeout` do: both processes, and the parent twice.
              kill(getppid(), SIGINT);
              raise(SIGINT);
              while (state_.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              kill(getppid(), SIGINT);
              raise(SIGINT);
              _exit(128 + state_.signal());
            }}),
            128 + SIGINT);
}

TEST(SharedStateTest, ASecondSignalIsOneThatComesLater) {
  SharedState state(1);
  EXPECT_EQ(state.signal(), 0);
  EXPECT_EQ(state.Interrupt(SIGINT), SharedState::Request::kFirst);
  EXPECT_EQ(state.Interrupt(SIGTERM), SharedState::Request::kEcho);
  EXPECT_EQ(state.signal(), SIGINT);
  SharedState::Request request{};
  do {
    request = state.Interrupt(SIGINT);
  } while (request == SharedState::Request::kEcho);
  EXPECT_EQ(request, SharedState::Request::kAgain);
}

TEST(SharedStateTest, BothSidesSeeTheSame) {
  SharedState state(3);
  const pid_t child = fork();
  if (child == 0) {
    state.BeginCase(2, 5);
    state.SetShown(1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(state.running().has_value());
  EXPECT_EQ(state.running()->index, 2);
  EXPECT_EQ(state.running()->repetition, 5);
  EXPECT_TRUE(state.shown(1));
  EXPECT_FALSE(state.shown(2));
  state.EndCase();
  EXPECT_FALSE(state.running().has_value());
}

}  // namespace
}  // namespace roofbench
