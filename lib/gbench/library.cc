// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/library.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// `error_occurred` became `skipped` in 1.8; `requires` picks the one that the header has.
template <typename Run>
bool ErrorOf(const Run& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred;
  } else {
    return run.skipped != decltype(run.skipped){};
  }
}

template <typename Run>
std::string MessageOf(const Run& run) {
  if constexpr (requires { run.error_message; }) {
    return run.error_message;
  } else {
    return run.skip_message;
  }
}

template <typename Run>
void ClearError(Run& run) {
  if constexpr (requires { run.error_occurred; }) {
    run.error_occurred = false;
    run.error_message.clear();
  } else {
    run.skipped = decltype(run.skipped){};
    run.skip_message.clear();
  }
}

// The figures of a measured repetition, as the library would have them.
void FillIn(const Outcome& outcome, LibraryRun& run) {
  ClearError(run);
  run.iterations = 1;
  run.real_accumulated_time = outcome.summary.median;
  run.report_label = std::string(Name(outcome.samples.stop));
  for (const auto& [name, value] : outcome.counters) run.counters[name] = value;
}

// The library's aggregates of repetitions, by its names.
double Aggregate(const std::string& name, const std::vector<double>& values) {
  if (name == "median") return timing::Median(values);
  if (name == "stddev") return timing::StandardDeviation(values);
  if (name == "cv") return timing::StandardDeviation(values) / timing::Mean(values);
  return timing::Mean(values);
}

}  // namespace

std::size_t PlanIndex(const LibraryRun& run) { return static_cast<std::size_t>(run.family_index); }

bool IsError(const LibraryRun& run) { return ErrorOf(run); }

std::string ErrorMessage(const LibraryRun& run) { return MessageOf(run); }

std::string ErrorMessageOf(const Outcome& outcome) {
  // A reason may name what a stranger called it.
  return absl::StrCat(View(Name(outcome.verdict)), ": ", Printable(outcome.reason));
}

const Outcome* OutcomeOf(const LibraryRun& run, const Session& session) {
  if (run.run_type == LibraryRun::RT_Aggregate) return nullptr;
  const auto& outcomes = session.OutcomesOf(PlanIndex(run));
  const auto index = static_cast<std::size_t>(run.repetition_index > 0 ? run.repetition_index : 0);
  return index < outcomes.size() ? &outcomes[index] : nullptr;
}

LibraryRun Corrected(const LibraryRun& run, const Session& session) {
  LibraryRun corrected = run;
  corrected.run_name.time_type.clear();  // every case has manual time: it is no part of its name
  if (const Outcome* outcome = OutcomeOf(run, session); outcome != nullptr) {
    if (outcome->verdict == Verdict::kMeasured && IsError(run)) FillIn(*outcome, corrected);
    corrected.cpu_accumulated_time = outcome->samples.cpu_seconds_per_step * static_cast<double>(corrected.iterations);
  } else if (run.run_type == LibraryRun::RT_Aggregate) {
    std::vector<double> seconds;
    for (const Outcome& one : session.OutcomesOf(PlanIndex(run))) {
      if (one.verdict == Verdict::kMeasured) seconds.push_back(one.samples.cpu_seconds_per_step);
    }
    if (!seconds.empty()) {
      const bool is_time = run.aggregate_unit == benchmark::kTime;
      // The library divides times by the iterations when it prints them, and percentages by nothing.
      corrected.cpu_accumulated_time =
          Aggregate(run.aggregate_name, seconds) * (is_time ? static_cast<double>(run.iterations) : 1);
    }
  }
  for (double* time : {&corrected.cpu_accumulated_time, &corrected.real_accumulated_time}) {
    if (!std::isfinite(*time)) *time = 0;
  }
  for (auto it = corrected.counters.begin(); it != corrected.counters.end();) {
    it = std::isfinite(it->second.value) ? std::next(it) : corrected.counters.erase(it);
  }
  return corrected;
}

}  // namespace roofbench
