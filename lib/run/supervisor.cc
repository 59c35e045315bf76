// SPDX-License-Identifier: Apache-2.0
#include "lib/run/supervisor.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/process.h"

namespace roofbench {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kCannotGoOn = 1;
constexpr int kMostCrashesBetweenCases = 2;
// Added to the child's OOM score, in thousandths, so that the system kills the child before the parent, which must
// report it.
constexpr int kKilledFirst = 100;

SharedState* g_state = nullptr;
bool g_supervised = false;

void OnSignal(int signal) {
  if (g_state->Interrupt(signal) != SharedState::Request::kAgain || g_supervised) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

pthread_t g_parent_thread;

// A library's second thread must not take a signal that the main thread waits for.
void HandToParentThread(int signal) { pthread_kill(g_parent_thread, signal); }

[[noreturn]] void DieBy(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  std::raise(signal);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  _exit(128 + signal);
}

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Signals that end a run in order.
std::vector<int> EndingSignals() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  if (!IsIgnored(SIGHUP)) signals.push_back(SIGHUP);
  return signals;
}

void AllowToBeKilledFirst() {
  constexpr char kScore[] = "/proc/self/oom_score_adj";
  constexpr int kMost = 1000;
  int score = 0;
  if (std::ifstream file(kScore); !(file >> score)) return;
  std::ofstream(kScore) << std::min(score + kKilledFirst, kMost);
}

std::string ReasonOf(int status) {
  if (WIFEXITED(status)) return absl::StrCat("ended with exit status ", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL) return "killed (SIGKILL), most likely by the system for memory";
  const char* name = sigabbrev_np(signal);
  return absl::StrCat("crashed (", name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name), ", ",
                      strsignal(signal), ")");
}

void Say(const std::string& text) { std::cerr << ProgramName() << ": " << text << std::endl; }

class Supervisor {
 public:
  Supervisor(SharedState& state, const Supervision& supervision) : state_(state), supervision_(supervision) {
    // Signals stay blocked until this process waits for them, so none is lost between two polls of the child.
    sigemptyset(&awaited_);
    sigaddset(&awaited_, SIGCHLD);
    g_parent_thread = pthread_self();
    for (const int signal : EndingSignals()) {
      sigaddset(&awaited_, signal);
      std::signal(signal, HandToParentThread);
    }
    std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, a parent gets no exit status of its children
    sigprocmask(SIG_BLOCK, &awaited_, &mask_before_);
  }

  int Run() {
    for (;;) {
      const pid_t parent = getpid();
      child_ = fork();
      if (child_ < 0) {
        Say(absl::StrCat("cannot start a process for the cases: ", std::strerror(errno)));
        return kCannotGoOn;
      }
      if (child_ == 0) {
        BeAChild(parent);
        const NotedSignals noted(state_, /*supervised=*/true);
        sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
        return supervision_.run();
      }
      if (const std::optional<int> status = AfterTheEnd(AwaitEnd()); status) return *status;
    }
  }

 private:
  struct End {
    int status = 0;
    std::optional<RunningCase> hung = {};  // the case that exceeded its time limit
  };

  static void BeAChild(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kCannotGoOn);  // the parent ended before this process requested its death signal
    AllowToBeKilledFirst();
  }

  // Waits for the child's end, and kills it if a case is overdue.
  End AwaitEnd() {
    for (;;) {
      End end;
      if (waitpid(child_, &end.status, WNOHANG) == child_) return end;
      end.hung = Overdue();
      if (end.hung) {
        end.status = Kill();
        return end;
      }
      AwaitSignal();
    }
  }

  std::optional<RunningCase> Overdue() const {
    const std::optional<RunningCase> running = state_.running();
    if (supervision_.case_timeout <= 0 || !running) return std::nullopt;
    return steady_clock::now() - running->began >= duration<double>(supervision_.case_timeout) ? running : std::nullopt;
  }

  // Waits until a signal arrives or a case may be overdue: a case that begins meanwhile has a whole timeout left.
  void AwaitSignal() {
    siginfo_t info{};
    int signal = -1;
    if (supervision_.case_timeout > 0) {
      const std::optional<RunningCase> running = state_.running();
      const auto begin = running ? running->began : steady_clock::now();
      const auto left = std::max<nanoseconds>(
          nanoseconds(1),
          duration_cast<nanoseconds>(begin + duration<double>(supervision_.case_timeout) - steady_clock::now()));
      constexpr int64_t kNanoseconds = 1'000'000'000;
      const timespec limit{.tv_sec = left.count() / kNanoseconds, .tv_nsec = left.count() % kNanoseconds};
      signal = sigtimedwait(&awaited_, &info, &limit);
    } else {
      signal = sigwaitinfo(&awaited_, &info);
    }
    if (signal <= 0 || signal == SIGCHLD) return;
    if (state_.Interrupt(signal) == SharedState::Request::kAgain) {
      Kill();
      DieBy(signal);
    }
    if (!announced_) {
      Say(absl::StrCat("signal ", signal, ": the run ends after the sample that it takes; a second one ends it now"));
    }
    announced_ = true;
  }

  int Kill() const {
    int status = 0;
    kill(child_, SIGKILL);
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  // The exit status of the run, or nullopt if another child must continue it.
  std::optional<int> AfterTheEnd(const End& end) {
    const std::optional<RunningCase> running = state_.running();
    state_.EndCase();
    if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGPIPE) DieBy(SIGPIPE);
    if (end.hung) {
      // The case may have ended before the kill arrived: then it either has its line or runs again.
      if (!running || running->began != end.hung->began) return std::nullopt;
      return Fail(*running, absl::StrCat("not finished after ", supervision_.case_timeout, " s (--case_timeout)"));
    }
    if (running) return Fail(*running, ReasonOf(end.status));
    if (state_.TakeWish()) return std::nullopt;
    if (WIFEXITED(end.status)) return WEXITSTATUS(end.status);
    if (state_.finished()) {
      Say(absl::StrCat("everything is written, but the process of the cases did not end in order: ",
                       ReasonOf(end.status)));
      return kCannotGoOn;
    }
    ++crashes_between_cases_;
    const bool again = crashes_between_cases_ < kMostCrashesBetweenCases;
    Say(absl::StrCat("the process of the cases was lost while none of them ran: ", ReasonOf(end.status),
                     again ? "; another goes on" : "; it is the second, and the run ends here"));
    return again ? std::nullopt : std::optional(kCannotGoOn);
  }

  std::optional<int> Fail(const RunningCase& running, const std::string& reason) {
    const absl::Status status = supervision_.fail(running, reason);
    if (status.ok()) return std::nullopt;
    Say(absl::StrCat("cannot go on: ", std::string(status.message())));
    return kCannotGoOn;
  }

  SharedState& state_;
  const Supervision& supervision_;
  sigset_t awaited_{};
  sigset_t mask_before_{};
  pid_t child_ = -1;
  int crashes_between_cases_ = 0;
  bool announced_ = false;
};

}  // namespace

int Supervise(SharedState& state, const Supervision& supervision) { return Supervisor(state, supervision).Run(); }

NotedSignals::NotedSignals(SharedState& state, bool supervised) {
  g_state = &state;
  g_supervised = supervised;
  for (const int signal : EndingSignals()) std::signal(signal, OnSignal);
}

NotedSignals::~NotedSignals() {
  for (const int signal : EndingSignals()) std::signal(signal, SIG_IGN);
}

}  // namespace roofbench
