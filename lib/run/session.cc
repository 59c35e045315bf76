// SPDX-License-Identifier: Apache-2.0
#include "lib/run/session.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/aten/precision_scopes.h"
#include "lib/base/process.h"
#include "lib/base/process_state.h"
#include "lib/base/readable.h"
#include "lib/base/text.h"
#include "lib/hardware/process_memory.h"
#include "lib/hardware/threads.h"
#include "lib/results/counters.h"
#include "lib/run/built_case.h"
#include "lib/run/measuring.h"
#include "lib/run/memory_snapshot.h"
#include "lib/run/profiling.h"
#include "lib/run/thrown.h"
#include "lib/suite/check.h"
#include "lib/suite/operand_cache.h"

namespace roofbench {
namespace {

// The message of an exception may have megabytes; tools/report refuses results with such a reason.
constexpr std::size_t kLongestReason = 2000;

void End(Outcome& outcome, Verdict verdict, std::string reason) {
  outcome.verdict = verdict;
  outcome.reason = std::move(reason);
}

// Cases that the machine cannot run are skipped; errors are failures.
void EndBy(const absl::Status& status, Outcome& outcome) {
  if (status.ok()) return;
  const bool skipped = status.code() == absl::StatusCode::kUnimplemented ||
                       status.code() == absl::StatusCode::kResourceExhausted ||
                       status.code() == absl::StatusCode::kDeadlineExceeded;
  const Verdict verdict = skipped                     ? Verdict::kSkipped
                          : absl::IsCancelled(status) ? Verdict::kInterrupted
                                                      : Verdict::kFailed;
  End(outcome, verdict, std::string(status.message()));
}

}  // namespace

Session::Session(const RunOptions& options, Device& device, std::vector<PlannedCase> plan,
                 std::function<bool()> interrupted, RankTeams* teams)
    : options_(options),
      device_(device),
      plan_(std::move(plan)),
      reference_(hardware::FindDatasheet(options.reference)),
      interrupted_(std::move(interrupted)),
      teams_(teams),
      admission_(options, device),
      outcomes_(plan_.size()) {}

void Session::Restore(std::vector<Outcome> finished) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < plan_.size(); ++i) index.emplace(plan_[i].name, i);
  for (Outcome& outcome : finished) {
    const auto found = index.find(outcome.name);
    if (found == index.end()) continue;
    const std::pair<std::size_t, int> key(found->second, outcome.repetition);
    restored_.insert_or_assign(key, std::move(outcome));
  }
}

const Outcome& Session::Add(std::size_t index, Outcome outcome) {
  outcome.reason = Excerpt(outcome.reason, kLongestReason);
  if (outcome.verdict == Verdict::kFailed) ++failed_;
  return outcomes_[index].emplace_back(std::move(outcome));
}

absl::Status Session::Measure(const PlannedCase& planned, Outcome& outcome) {
  outcome.cost = planned.family->CostOf(planned.point);
  const int64_t ranks = planned.point.Ranks();
  // Ranks with a GPU each do not share its memory.
  const int64_t sharing = !device_.SharesHostMemory() ? 1 : teams_ == nullptr ? ranks : teams_->RanksHere(ranks);
  if (absl::Status status = admission_.Check(planned, outcome.cost, sharing); !status.ok()) return status;
  if (ranks == 1) return MeasureWith(nullptr, planned, outcome);
  if (teams_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat("needs ", ranks, " ranks, and this is one process"));
  }
  const absl::StatusOr<RankTeam*> team = teams_->For(ranks, device_);
  if (!team.ok()) return team.status();
  const auto index = static_cast<std::size_t>(&planned - plan_.data());
  return (*team)->Lead(
      index, [&] { return MeasureWith(*team, planned, outcome); }, interrupted_);
}

absl::Status Session::MeasureWith(RankTeam* team, const PlannedCase& planned, Outcome& outcome) {
  std::optional<ThreadShare> share;
  if (team != nullptr) share.emplace(device_.threads(), team->ranks_sharing());
  const Fp32Scope fp32(outcome.cost.Flops(workload::Dtype::kTf32) > 0);
  const hardware::ProcessMemory process;
  // Memory shared by cases of this family is either part of the prediction or can be freed.
  const double other_bytes = process.bytes_before() - OperandCache::bytes();
  std::optional<MemorySnapshot> snapshot;
  const bool is_first = outcome.repetition == 0;
  if (!options_.memory_snapshot.empty() && is_first && team == nullptr) {
    snapshot.emplace(device_, options_.profile.steps);
  }
  absl::StatusOr<BuiltCase> built =
      BuildCase(planned, options_, device_, snapshot ? &*snapshot : nullptr, /*sampled=*/false, team, interrupted_);
  if (!built.ok()) return built.status();
  const Case& first = built->first();
  const bool sets_warmup = first.warmup_iters.has_value();
  const bool wants_snapshot = snapshot.has_value();
  if (sets_warmup) snapshot.reset();  // recording would slow down the samples
  if (first.cost) outcome.cost = *first.cost;
  outcome.peak_memory_bytes = built->peak_memory_bytes;
  outcome.parameters = first.parameters;

  const CacheState cache = planned.point.IsCold() ? CacheState::kCold : CacheState::kWarm;
  constexpr double kMostUnseen = 0.5;
  if (built->unseen > kMostUnseen) outcome.figures.emplace_back("unseen", built->unseen);
  if (sampling_) sampling_();
  const absl::Status sampled = SampleCase(*built, cache, options_, device_, interrupted_, outcome, team);
  if (team != nullptr && options_.check) {
    // A rank whose results were right at first may have lost step with the others.
    const at::AutoGradMode grad(first.autograd);
    timing::IgnoredPhases ignored;
    if (first.prepare) first.prepare();
    first.step(ignored);
  }
  if ((first.warmup_iters || team != nullptr) && options_.check) {
    if (absl::Status status = CheckCase(first); !status.ok()) return status;
  }
  if (first.text) outcome.text = first.text();
  // The formula does not include the copies over which a cold cache rotates.
  if (cache == CacheState::kWarm && device_.SharesHostMemory() && outcome.cost.resident_bytes > 0) {
    outcome.process_bytes = process.PeakBytes();
    // Memory that was freed for this case was still in use when it began.
    if (outcome.process_bytes) {
      outcome.predicted_process_bytes = std::max(process.bytes_before(), other_bytes + outcome.cost.resident_bytes);
    }
  }
  for (const auto& [name, figure] : first.figures) outcome.figures.emplace_back(name, figure());
  admission_.Learn(planned, outcome);
  const bool is_over =
      team == nullptr ? interrupted_ && interrupted_() : outcome.samples.stop == timing::StopReason::kInterrupted;
  if (sets_warmup && !is_over) {
    // Measuring and recording memory takes steps of its own, which would count in the warm-up: a second build has them.
    built = absl::CancelledError("");  // frees the first
    if (wants_snapshot) snapshot.emplace(device_, options_.profile.steps);
    try {
      built = BuildCase(planned, options_, device_, snapshot ? &*snapshot : nullptr, /*sampled=*/true, team);
    } catch (...) {
      built = StatusOfThrown();
    }
    if (team != nullptr && !built.ok()) return built.status();
    if (built.ok()) {
      outcome.peak_memory_bytes = built->peak_memory_bytes;
    } else {
      ReportLost(
          absl::Status(built.status().code(), absl::StrCat(outcome.name,
                                                           ": measured, but without peak_mem: the second build, which "
                                                           "measures memory, failed: ",
                                                           built.status().message())));
    }
  }
  outcome.counters = ComputeCounters({.outcome = outcome,
                                      .datasheet = device_.datasheet(),
                                      .enqueues_ahead = device_.EnqueuesAhead(),
                                      .reference = *reference_});
  if (sampled.ok() && built.ok() && !is_over) {
    if (snapshot) ReportLost(snapshot->Write(options_.memory_snapshot, outcome));
    ProfileOptions profile = options_.profile;
    if (!is_first || profile.folder.empty()) profile.steps = 0;
    if (team != nullptr) {
      profile.steps = team->OfRankZero(profile.steps);
      if (team->rank() != 0) profile.folder.clear();
    }
    if (profile.steps > 0) {
      const absl::Status profiled = ProfileCase(planned, *built, profile, device_, outcome);
      // Another rank writes nothing: its step failed, and the group is out of step.
      if (team != nullptr && team->rank() != 0 && !profiled.ok()) return profiled;
      ReportLost(profiled);
    }
  }
  return sampled;
}

void Session::ReportLost(const absl::Status& profiled) {
  if (!profiled.ok() && lost_profile_) lost_profile_(profiled);
}

void Session::RunHere(const PlannedCase& planned, Outcome& outcome) {
  if (interrupted_ && interrupted_()) return End(outcome, Verdict::kInterrupted, "interrupted before it ran");
  absl::Status ended;
  try {
    admission_.Enter(*planned.family);  // queries the device, which may be lost
    ended = Measure(planned, outcome);
  } catch (...) {
    ended = StatusOfThrown();
  }
  EndBy(ended, outcome);
  // Of another reason the figures would say nothing.
  if (absl::IsResourceExhausted(ended)) outcome.reason += admission_.MemoryNote(outcome.cost);
}

struct Session::BeforeCase {
  ProcessState state;
  hardware::StartedThreads threads;
};

void Session::EndCase(Outcome& outcome, const BeforeCase& before) {
  if (const std::vector<std::string> changed = before.state.Restore(); !changed.empty()) {
    std::cerr << ProgramName() << ": " << outcome.name << " changed " << absl::StrJoin(changed, ", ")
              << " of its process; the next case has it as it was\n";
  }
  const bool works_on = before.threads.AtWork() > 0;
  needs_new_process_ = works_on || ServesMemory();  // whose memory the next case may get
  if (works_on) {
    std::cerr << ProgramName() << ": " << outcome.name << " left a thread that still works, beside the next cases\n";
  }
  hardware::ReleaseFreedMemory();
  try {
    device_.AfterCase();
  } catch (const std::exception& error) {
    const bool blameless = outcome.verdict == Verdict::kMeasured || outcome.verdict == Verdict::kSkipped;
    if (blameless) End(outcome, Verdict::kFailed, FirstLine(error.what()));
  }
}

void Session::Follow(RankTeam& team) {
  SurviveBrokenConnections();  // before the first case whose connections need it: what a case changes is undone
  team.SetDevice(device_);
  while (const std::optional<std::size_t> index = team.NextCase()) {
    const PlannedCase& planned = plan_.at(*index);
    Outcome outcome{.name = planned.name, .cost = planned.family->CostOf(planned.point)};
    const BeforeCase before;
    OperandCache::Enter(planned.family->name());
    if (device_.SharesHostMemory()) hardware::LimitMemory(device_.FreeMemoryBytes());
    // Rank 0 reports what all agree on.
    team.Follow([&] { return MeasureWith(&team, planned, outcome); }).IgnoreError();
    hardware::LiftMemoryLimit();
    EndCase(outcome, before);
  }
}

const Outcome& Session::Run(std::size_t index) {
  const PlannedCase& planned = plan_.at(index);
  const auto repetition = static_cast<int>(outcomes_[index].size());
  if (auto restored = restored_.extract({index, repetition})) {
    // Predicts later cases from this one, as if it had run here.
    const Outcome& outcome = restored.mapped();
    if (outcome.verdict == Verdict::kMeasured) admission_.Learn(planned, outcome);
    return Add(index, std::move(restored.mapped()));
  }
  Outcome outcome{.name = planned.name, .axes = AxesOf(planned.point), .repetition = repetition};
  if (begun_) begun_(index, repetition);
  const BeforeCase before;
  RunHere(planned, outcome);
  EndCase(outcome, before);
  const Outcome& kept = Add(index, std::move(outcome));
  if (finished_) finished_(kept);
  return kept;
}

}  // namespace roofbench
