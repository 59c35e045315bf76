// SPDX-License-Identifier: Apache-2.0
#include "lib/run/supervisor.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iostream>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/case_limit.h"
#include "lib/base/process.h"

namespace roofbench {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Repeats of a signal arrive within moments; a user's second Ctrl-C does not.
constexpr nanoseconds kEcho = std::chrono::milliseconds(300);

// Time since system start, comparable across processes: never 0.
int64_t Now() { return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count(); }

constexpr nanoseconds kNextLook = std::chrono::milliseconds(100);  // of a parent whose child is to end

constexpr int kCannotContinue = 1;
constexpr int kMostCrashesBetweenCases = 2;

SharedState* g_state = nullptr;
bool g_supervised = false;

void OnSignal(int signal) {
  const bool is_second = g_state->Interrupt(signal) == SharedState::Request::kAgain;
  if (g_supervised || (!is_second && !g_state->preparing())) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

pthread_t g_parent_thread;

// A library's second thread must not take a signal that the main thread waits for.
void HandToParentThread(int signal) {
  if (pthread_equal(pthread_self(), g_parent_thread) == 0) pthread_kill(g_parent_thread, signal);
}

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

void Say(const std::string& text) { std::cerr << ProgramName() << ": " << text << std::endl; }

class Supervisor {
 public:
  Supervisor(SharedState& state, const Supervision& supervision) : state_(state), supervision_(supervision) {
    if (supervision.case_timeout > 0) limit_.emplace(CaseLimit::Seconds(supervision.case_timeout));
    // Signals stay blocked until this process waits for them, so none is lost between two polls of the child.
    sigemptyset(&awaited_);
    sigaddset(&awaited_, SIGCHLD);
    g_parent_thread = pthread_self();
    for (const int signal : EndingSignals()) {
      sigaddset(&awaited_, signal);
      std::signal(signal, HandToParentThread);
    }
    // If SIGCHLD is ignored, a parent gets no exit status of its children; by default a thread that does not block it
    // drops it.
    std::signal(SIGCHLD, HandToParentThread);
    sigprocmask(SIG_BLOCK, &awaited_, &mask_before_);
  }

  int Run() {
    for (;;) {
      const pid_t parent = getpid();
      child_ = fork();
      if (child_ < 0) {
        Say(absl::StrCat("cannot start a process for the cases: ", std::strerror(errno)));
        return kCannotContinue;
      }
      if (child_ == 0) {
        if (!BeSupervisedBy(parent)) _exit(kCannotContinue);
        std::signal(SIGCHLD, SIG_DFL);
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
    bool stopped = false;                  // by a signal, in a case without samples
  };

  // Waits for the child's end, and kills it if a case is overdue.
  End AwaitEnd() {
    for (;;) {
      End end;
      if (waitpid(child_, &end.status, WNOHANG) == child_) return end;
      end.hung = Overdue();
      end.stopped = !end.hung && KeepsUsWaiting();
      if (end.hung || end.stopped) {
        end.status = Kill();
        return end;
      }
      AwaitSignal();
    }
  }

  std::optional<RunningCase> Overdue() {
    const std::optional<RunningCase> running = state_.running();
    return limit_ && limit_->IsReached(running ? std::optional(running->began) : std::nullopt, steady_clock::now())
               ? running
               : std::nullopt;
  }

  bool KeepsUsWaiting() const {
    return asked_to_end_ && steady_clock::now() - *asked_to_end_ > kUnsampledGrace && !stopped_ && state_.running() &&
           !state_.sampling();
  }

  // Waits until a signal arrives or it is time to look at the running case again.
  void AwaitSignal() {
    siginfo_t info{};
    int signal = -1;
    std::optional<nanoseconds> next;
    if (limit_) next = duration_cast<nanoseconds>(limit_->NextCall());
    if (asked_to_end_) next = std::min(next.value_or(kNextLook), kNextLook);
    if (next) {
      constexpr int64_t kNanoseconds = 1'000'000'000;
      const int64_t wait = std::max<int64_t>(1, next->count());
      const timespec time{.tv_sec = wait / kNanoseconds, .tv_nsec = wait % kNanoseconds};
      signal = sigtimedwait(&awaited_, &info, &time);
    } else {
      signal = sigwaitinfo(&awaited_, &info);
    }
    if (signal <= 0 || signal == SIGCHLD) return;
    const bool is_second = state_.Interrupt(signal) == SharedState::Request::kAgain;
    if (is_second || state_.preparing()) {
      if (!is_second) Say(absl::StrCat("signal ", signal, " while the roofs were measured: the run ends now"));
      Kill();
      DieBy(signal);
    }
    if (!asked_to_end_) {
      Say(absl::StrCat("signal ", signal, ": the run ends after the sample that it takes; a second one ends it now"));
    }
    if (!asked_to_end_) asked_to_end_ = steady_clock::now();
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
    if (end.stopped) stopped_ = true;
    if (end.stopped && !state_.finished()) return std::nullopt;  // the next child writes what is measured
    if (end.hung) {
      // The case may have ended before the kill arrived: then it either has its line or runs again.
      if (!running || running->began != end.hung->began) return std::nullopt;
      return Fail(*running, limit_->Reason());
    }
    if (running) return Fail(*running, DescribeEnd(end.status));
    if (state_.TakeRespawnRequest()) return std::nullopt;
    if (WIFEXITED(end.status)) return WEXITSTATUS(end.status);
    if (state_.finished()) {
      Say(absl::StrCat("everything is written, but the process of the cases did not end in order: ",
                       DescribeEnd(end.status)));
      return kCannotContinue;
    }
    const auto newest = state_.newest();
    crashes_between_cases_ = newest == newest_at_crash_ ? crashes_between_cases_ + 1 : 1;
    newest_at_crash_ = newest;
    const bool again = crashes_between_cases_ < kMostCrashesBetweenCases;
    Say(absl::StrCat("the process of the cases was lost while none of them ran: ", DescribeEnd(end.status),
                     again ? "; another one continues" : "; it is the second in a row, and the run ends here"));
    return again ? std::nullopt : std::optional(kCannotContinue);
  }

  std::optional<int> Fail(const RunningCase& running, const std::string& reason) {
    const absl::Status status = supervision_.fail(running, reason);
    if (status.ok()) return std::nullopt;
    Say(absl::StrCat("cannot continue: ", std::string(status.message())));
    return kCannotContinue;
  }

  SharedState& state_;
  const Supervision& supervision_;
  std::optional<CaseLimit> limit_;
  sigset_t awaited_{};
  sigset_t mask_before_{};
  pid_t child_ = -1;
  int crashes_between_cases_ = 0;  // without another case between them
  std::pair<std::size_t, int> newest_at_crash_;
  std::optional<steady_clock::time_point> asked_to_end_;
  bool stopped_ = false;
};

}  // namespace

SharedState::SharedState(std::size_t cases) : bytes_(sizeof(Page) + cases * sizeof(std::atomic<bool>)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory to share with a process");
  page_ = new (memory) Page();
  auto* flags = reinterpret_cast<std::atomic<bool>*>(page_ + 1);
  for (std::size_t i = 0; i < cases; ++i) new (flags + i) std::atomic<bool>(false);
  shown_ = {flags, cases};
}

SharedState::~SharedState() { munmap(page_, bytes_); }

void SharedState::BeginCase(std::size_t index, int repetition) {
  page_->index = index;
  page_->repetition = repetition;
  page_->sampling = false;
  page_->began_ns = Now();
}

void SharedState::EndCase() { page_->began_ns = 0; }

std::optional<RunningCase> SharedState::running() const {
  const int64_t began = page_->began_ns;
  if (began == 0) return std::nullopt;
  return RunningCase{
      .index = page_->index,
      .repetition = page_->repetition,
      .began = steady_clock::time_point(std::chrono::duration_cast<steady_clock::duration>(nanoseconds(began)))};
}

SharedState::Request SharedState::Interrupt(int signal) {
  int none = 0;
  const int64_t now = Now();
  if (page_->signal.compare_exchange_strong(none, signal)) {
    page_->signalled_ns = now;
    return Request::kFirst;
  }
  const int64_t first = page_->signalled_ns;
  return first == 0 || nanoseconds(now - first) < kEcho ? Request::kEcho : Request::kAgain;
}

int Supervise(SharedState& state, const Supervision& supervision) { return Supervisor(state, supervision).Run(); }

NotedSignals::NotedSignals(SharedState& state, bool supervised) {
  g_state = &state;
  g_supervised = supervised;
  for (const int signal : EndingSignals()) std::signal(signal, OnSignal);
  SurviveBrokenConnections(OnSignal);  // a reader that has seen enough (`| head`) ends the run in order too
}

NotedSignals::~NotedSignals() {
  for (const int signal : EndingSignals()) std::signal(signal, SIG_IGN);
}

}  // namespace roofbench
