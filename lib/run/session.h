// SPDX-License-Identifier: Apache-2.0
// One run: measures planned cases on a device and keeps their outcomes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/admission.h"
#include "lib/run/rank_team.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

class Session {
 public:
  // `interrupted` is polled between samples and between cases. Without `teams`, cases of several ranks are skipped.
  Session(const RunOptions& options, Device& device, std::vector<PlannedCase> plan, std::function<bool()> interrupted,
          RankTeams* teams = nullptr);

  // Adds outcomes that an earlier process of this run finished: Run returns each once, instead of measuring.
  // Outcomes are matched by their names in the plan.
  void Restore(std::vector<Outcome> finished);
  bool IsRestored(std::size_t index, int repetition) const { return restored_.contains({index, repetition}); }

  // Runs the next repetition of a case: predicts, builds, checks, samples. Never throws: errors set the verdict of the
  // outcome. The reference stays valid for the lifetime of the session.
  const Outcome& Run(std::size_t index);

  // On the other ranks, instead of Run: runs the cases that rank 0 chooses from the same plan, until it has no more.
  // Throws ranks::ContactLost if rank 0 is gone.
  void Follow(RankTeam& team);

  const std::vector<PlannedCase>& plan() const { return plan_; }
  // Outcomes of a case, by repetition; empty if it has not run.
  const std::deque<Outcome>& OutcomesOf(std::size_t index) const { return outcomes_.at(index); }
  const Device& device() const { return device_; }
  const hardware::Datasheet& reference() const { return *reference_; }
  int failed() const { return failed_; }
  // Whether the last case left a thread that works on, or memory that is supplied when it is read: only another process
  // is free of them.
  bool needs_new_process() const { return needs_new_process_; }

  // Called around each case measured here: with its index and repetition before it begins, and with its outcome as soon
  // as it has ended.
  void OnBegin(std::function<void(std::size_t, int)> callback) { begun_ = std::move(callback); }
  void OnFinished(std::function<void(const Outcome&)> callback) { finished_ = std::move(callback); }
  // Called between them, before the first sample.
  void OnSampling(std::function<void()> callback) { sampling_ = std::move(callback); }
  // Called with the reason if a case was measured but its peak memory, profile or memory snapshot was lost.
  void OnLostProfile(std::function<void(const absl::Status&)> callback) { lost_profile_ = std::move(callback); }

 private:
  // Adds the next repetition of a case.
  const Outcome& Add(std::size_t index, Outcome outcome);
  // Measures unless the run was interrupted, and converts errors to a verdict.
  void RunHere(const PlannedCase& planned, Outcome& outcome);
  // Decides whether the case runs, and with which ranks. Errors are returned; exceptions propagate.
  absl::Status Measure(const PlannedCase& planned, Outcome& outcome);
  // Builds, checks and samples, in step with the ranks of `team`; fills `outcome`.
  absl::Status MeasureWith(RankTeam* team, const PlannedCase& planned, Outcome& outcome);
  void ReportLost(const absl::Status& profiled);
  // The process, before a case.
  struct BeforeCase;
  // Brings back what the case has changed of its process, and lets the device recover, which may reveal asynchronous
  // errors.
  void EndCase(Outcome& outcome, const BeforeCase& before);

  const RunOptions& options_;
  Device& device_;
  const std::vector<PlannedCase> plan_;
  const hardware::Datasheet* reference_;
  std::function<bool()> interrupted_;
  RankTeams* const teams_;
  Admission admission_;
  std::vector<std::deque<Outcome>> outcomes_;                // by index in the plan; a deque keeps references valid
  std::map<std::pair<std::size_t, int>, Outcome> restored_;  // by index and repetition
  int failed_ = 0;
  bool needs_new_process_ = false;
  std::function<void(std::size_t, int)> begun_;
  std::function<void(const Outcome&)> finished_;
  std::function<void()> sampling_;
  std::function<void(const absl::Status&)> lost_profile_;
};

}  // namespace roofbench
