// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: rank 0 plans, prints and writes; the others follow it, and all build, check and sample each case
// in step.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/ranks/board.h"
#include "lib/ranks/device_group.h"
#include "lib/ranks/group.h"
#include "lib/ranks/place.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

class RankTeam {
 public:
  // Starts the other processes of a team, which meet at this port of the loopback interface.
  using Start = std::function<absl::StatusOr<std::unique_ptr<ranks::RankProcesses>>(uint16_t port)>;

  // Meets the other ranks at `place`. `fingerprint`: what must be the same on all of them, a fact a line.
  // FailedPrecondition names a rank that differs, and the lines; Unavailable names a rank that is missing.
  static absl::StatusOr<std::unique_ptr<RankTeam>> Meet(const ranks::Place& place, const std::string& fingerprint,
                                                        std::chrono::milliseconds timeout, const Start& start = {});
  // Rank 0 dismisses the others.
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  int rank() const { return board_->rank(); }
  int size() const { return board_->size(); }
  // Ranks on this rank's machine, itself included.
  int ranks_here() const { return static_cast<int>(pids_here_.size()) + 1; }
  // Ranks that may run on this rank's processors, itself included: a launcher may bind each rank to processors of its
  // own.
  int ranks_sharing() const;
  // CPU seconds of the other ranks on this machine.
  double OtherCpuSeconds() const;
  // Sets this rank's device, before it runs a case.
  void SetDevice(const Device& device);
  // Whether a rank is known to be lost: of a team of processes that we started, a new one takes its place.
  bool IsBroken() { return broken_ || (processes_ != nullptr && processes_->Dead()); }

  // Rank 0 runs a case with the others, which get its index in the plan. Returns what they agree on: OK, or the
  // failure of one of them with its number; Cancelled if they do not answer after `interrupted`. Never throws.
  absl::Status Lead(std::size_t index, const std::function<absl::Status()>& work,
                    const std::function<bool()>& interrupted = {});
  // The other ranks wait for a case; nullopt: rank 0 has dismissed them. Then they run it. Throws ranks::ContactLost if
  // rank 0 is gone.
  std::optional<std::size_t> NextCase();
  absl::Status Follow(const std::function<absl::Status()>& work);

  // While a case runs: the group, which is made again after a failure.
  const std::shared_ptr<ranks::Group>& group() const { return group_; }
  // Within a case: what all ranks agree on, before a step that communicates. After a failure, which leaves the group, a
  // case must return it.
  absl::Status Agree(absl::Status mine);
  // Whether it is so on any rank.
  bool Any(bool mine) const;
  // The value that rank 0 gave, on every rank.
  int64_t OfRankZero(int64_t mine) const;

 private:
  RankTeam(std::unique_ptr<ranks::Board> board, std::chrono::milliseconds timeout)
      : board_(std::move(board)), timeout_(timeout) {}
  absl::Status CompareWith(const std::vector<std::optional<std::string>>& texts, const std::string& mine);
  // Rank 0 waits until the others have come to this point or are gone: it may serve their board.
  void SeeOff(const char* key);
  absl::Status RunCase(const std::function<absl::Status()>& work);
  absl::Status Lost(const std::string& reason);
  // Why the case is over for this rank although others do not answer.
  std::optional<std::string> GivesUp();
  std::string CaseKey(const char* what) const;

  const std::unique_ptr<ranks::Board> board_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<ranks::RankProcesses> processes_;
  std::vector<pid_t> pids_here_;  // of the other ranks on this machine
  bool is_local_ = false;         // all ranks are on this machine
  ranks::RankDevice device_;
  std::shared_ptr<ranks::Group> group_;
  std::function<bool()> interrupted_;
  std::optional<ranks::Board::Clock::time_point> interrupted_at_;
  int cases_ = 0;
  int agreements_ = 0;                   // in this case
  std::optional<absl::Status> failure_;  // of this case, known to all
  bool broken_ = false;
};

// The teams of rank 0, one at a time: that of its launcher, or one that it starts with as many processes as a case
// needs.
class RankTeams {
 public:
  // Starts processes with `arguments`, the program's name and flags.
  RankTeams(const RunOptions& options, std::string fingerprint, std::vector<std::string> arguments);
  // Takes the team of a launcher.
  RankTeams(const RunOptions& options, std::unique_ptr<RankTeam> team);

  // The team of so many ranks, of which this one computes on `device`. Unimplemented, with the reason, if there can be
  // none; Unavailable if a rank did not start.
  absl::StatusOr<RankTeam*> For(int64_t ranks, const Device& device);
  // Ranks of such a case on this machine.
  int64_t RanksHere(int64_t ranks) const;

 private:
  // OK if as many processes can share the devices of this machine.
  absl::Status CheckDevices(int64_t ranks, const Device& device) const;

  const std::chrono::milliseconds timeout_;
  const std::string device_spec_;
  const std::string fingerprint_;
  const std::vector<std::string> arguments_;
  const bool is_launched_;
  std::unique_ptr<RankTeam> team_;
};

// Facts that must be the same on all ranks of a run: versions, flags, cases.
std::string FingerprintOf(const RunOptions& options, const std::vector<PlannedCase>& plan);

std::chrono::milliseconds RankTimeout(const RunOptions& options);

// While it lives, this rank uses its share of the threads that one process would use on its processors: ranks that wait
// for each other with more threads than processors hardly advance.
class ThreadShare {
 public:
  ThreadShare(int threads, int ranks_sharing);
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;
  ~ThreadShare();

 private:
  const int before_;
};

}  // namespace roofbench
