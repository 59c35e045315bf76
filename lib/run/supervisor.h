// SPDX-License-Identifier: Apache-2.0
// Runs the suite in a child process, so that a case that ends its process does not end the run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace roofbench {

// A running case: its index in the plan.
struct RunningCase {
  std::size_t index = 0;
  int repetition = 0;
  std::chrono::steady_clock::time_point began;
};

// State shared by a run and its supervisor process, in a page that both map. Created before the fork. All accesses are
// lock-free, because the other process may be dead.
class SharedState {
 public:
  // `cases`: number of cases in the plan. Throws std::system_error if memory cannot be mapped.
  explicit SharedState(std::size_t cases);
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;
  ~SharedState();

  // The running case; nullopt between cases. EndCase must precede the case's journal line, so that a running case never
  // has a line.
  void BeginCase(std::size_t index, int repetition);
  void EndCase();
  std::optional<RunningCase> running() const;
  // The first sample of the running case begins. Until then, its end loses nothing.
  void SetSampling() { page_->sampling = true; }
  bool sampling() const { return page_->sampling; }
  // Index and repetition of the case that began last, whether or not it still runs.
  std::pair<std::size_t, int> newest() const { return {page_->index, page_->repetition}; }

  // The roofs of a new run are being measured: a signal ends the run at once, because there is nothing to lose.
  void SetPreparing(bool preparing) { page_->preparing = preparing; }
  bool preparing() const { return page_->preparing; }
  // The journal belongs to this run: a successor resumes it.
  void SetJournalBegun() { page_->journal_begun = true; }
  bool journal_begun() const { return page_->journal_begun; }
  // The process ends, because it has lost its device or runs one case alone, and requests a successor.
  void RequestRespawn() { page_->respawn_requested = true; }
  bool TakeRespawnRequest() { return page_->respawn_requested.exchange(false); }
  // The outputs are written.
  void SetWritten() { page_->written = true; }
  bool written() const { return page_->written; }
  // The run has ended: a successor would have nothing to do.
  void SetFinished() { page_->finished = true; }
  bool finished() const { return page_->finished; }
  // Contents of the console: the lines about the run, and rows.
  void SetDescribed() { page_->described = true; }
  bool described() const { return page_->described; }
  void SetShown(std::size_t index) { shown_[index] = true; }
  bool shown(std::size_t index) const { return shown_[index]; }

  // A signal that asks the run to end. It may reach several processes, or one process twice within moments, and counts
  // once: a terminal signals the whole group, `timeout` the program and its group.
  enum class Request { kFirst, kEcho, kAgain };
  Request Interrupt(int signal);  // async-signal-safe
  int signal() const { return page_->signal; }

 private:
  // Followed by a flag per case.
  struct Page {
    std::atomic<int> signal = 0;
    std::atomic<int64_t> signalled_ns = 0;
    std::atomic<int64_t> began_ns = 0;  // 0: no case runs
    std::atomic<std::size_t> index = 0;
    std::atomic<int> repetition = 0;
    std::atomic<bool> sampling = false;
    std::atomic<bool> preparing = false;
    std::atomic<bool> journal_begun = false;
    std::atomic<bool> respawn_requested = false;
    std::atomic<bool> written = false;
    std::atomic<bool> finished = false;
    std::atomic<bool> described = false;
  };

  std::size_t bytes_;
  Page* page_;
  std::span<std::atomic<bool>> shown_;
};

// How long a run that is asked to end may go on with a case of which no sample has begun. The operands, checks and
// pilot runs of a large case last minutes, and do not look at signals.
inline constexpr std::chrono::milliseconds kUnsampledGrace{1000};

struct Supervision {
  double case_timeout = 0;  // limit per case in seconds; 0: none
  // The run, in a child. Its return value is the child's exit status.
  std::function<int()> run;
  // Creates the row of a case that ended its process or hung; the next child continues with the following case. Called
  // by the parent.
  std::function<absl::Status(const RunningCase& running, const std::string& reason)> fail;
};

// Forks a child, waits for its end or for a case's deadline, and forks another after a hang, a crash, or a request.
// Must be called before the process has a second thread: a child starts as a copy of this one, with all libraries
// loaded. Returns in the parent, with the exit status of the run, and in every child, with the return value of `run`.
//
// A second crash outside of any case ends the run unless another case began after the first one. SIGINT, SIGTERM and
// SIGHUP are recorded in `state`, which the run polls; after kUnsampledGrace a child that has not begun to sample its
// case is replaced by one that finds the signal recorded. A second signal, or one while the roofs are measured, ends
// both processes at once. The end of the parent, for any reason, ends the child.
int Supervise(SharedState& state, const Supervision& supervision);

// During its lifetime, those signals are recorded in `state`; a second signal ends the process at once unless a parent
// handles that. Afterwards they have no effect, because the run is over. An ignored SIGHUP stays ignored, so that a run
// under nohup continues.
class NotedSignals {
 public:
  NotedSignals(SharedState& state, bool supervised);
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();
};

}  // namespace roofbench
