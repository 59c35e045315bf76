// SPDX-License-Identifier: Apache-2.0
// What a run and the process that watches over it tell each other: a page that both see.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace roofbench {

// A case in progress: its place in the plan.
struct RunningCase {
  std::size_t index = 0;
  int repetition = 0;
  std::chrono::steady_clock::time_point began;
};

// Made before the processes part. Whatever it is asked is answered without a lock: the other side may be dead.
class SharedState {
 public:
  // For a plan of so many cases. Throws std::system_error where there is no memory for it.
  explicit SharedState(std::size_t cases);
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;
  ~SharedState();

  // The case that runs; nullopt between cases. It must end before its line is written, so that one that still runs has
  // no line.
  void BeginCase(std::size_t index, int repetition);
  void EndCase();
  std::optional<RunningCase> running() const;

  // The journal belongs to this run: a successor goes on with it.
  void SetJournalBegun() { page_->journal_begun = true; }
  bool journal_begun() const { return page_->journal_begun; }
  // The process ends because the device is of no more use to it, and another shall go on.
  void AskForSuccessor() { page_->wants_successor = true; }
  bool TakeWish() { return page_->wants_successor.exchange(false); }
  // Everything is written: a successor would find nothing to do.
  void SetFinished() { page_->finished = true; }
  bool finished() const { return page_->finished; }
  // What stands on the console: the lines about the run, and rows.
  void SetDescribed() { page_->described = true; }
  bool described() const { return page_->described; }
  void SetShown(std::size_t index) { shown_[index] = true; }
  bool shown(std::size_t index) const { return shown_[index]; }

  // A signal that asks the run to end. It may reach several processes, or one of them twice within moments, and means
  // one thing all the same: a terminal signals the whole group, `timeout` the program and its group.
  enum class Request { kFirst, kEcho, kAgain };
  Request Interrupt(int signal);  // may be called in a signal handler
  int signal() const { return page_->signal; }

 private:
  // Followed by a flag for each case.
  struct Page {
    std::atomic<int> signal = 0;
    std::atomic<int64_t> signalled_ns = 0;
    std::atomic<int64_t> began_ns = 0;  // 0: no case runs
    std::atomic<std::size_t> index = 0;
    std::atomic<int> repetition = 0;
    std::atomic<bool> journal_begun = false;
    std::atomic<bool> wants_successor = false;
    std::atomic<bool> finished = false;
    std::atomic<bool> described = false;
  };

  std::size_t bytes_;
  Page* page_;
  std::span<std::atomic<bool>> shown_;
};

}  // namespace roofbench
