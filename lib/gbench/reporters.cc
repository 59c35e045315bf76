// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"
#include "lib/results/counters.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using Run = BenchmarkReporter::Run;

double Variation(std::span<const double> values) { return timing::StandardDeviation(values) / timing::Mean(values); }

// The library's aggregates, by name.
constexpr std::pair<std::string_view, double (*)(std::span<const double>)> kAggregates[] = {
    {"mean", timing::Mean}, {"median", timing::Median}, {"stddev", timing::StandardDeviation}, {"cv", Variation}};

double Aggregated(const std::string& name, std::span<const double> values) {
  for (const auto& [known, aggregate] : kAggregates) {
    if (known == name) return aggregate(values);
  }
  return 0;
}

// Release 1.7 has errors only; later ones also skip with a message.
template <typename State>
void Skip(State& state, const Outcome& outcome) {
  const std::string why = WhyUnmeasured(outcome);
  if constexpr (requires { state.SkipWithMessage(why); }) {
    if (outcome.verdict == Verdict::kSkipped) return state.SkipWithMessage(why);
  }
  state.SkipWithError(why.c_str());
}

// The same for a run that the library counts as measured.
template <typename AnyRun>
void MarkSkipped(const Outcome& outcome, AnyRun& run) {
  if constexpr (requires { run.error_occurred; }) {
    run.error_occurred = true;
    run.error_message = WhyUnmeasured(outcome);
  } else {
    constexpr int kSkippedWithMessage = 1;
    constexpr int kSkippedWithError = 2;
    run.skipped = static_cast<decltype(run.skipped)>(outcome.verdict == Verdict::kSkipped ? kSkippedWithMessage
                                                                                          : kSkippedWithError);
    run.skip_message = WhyUnmeasured(outcome);
  }
}

// Seconds of a step over the measured repetitions: on the clock, and of the processors.
struct Seconds {
  std::vector<double> real;
  std::vector<double> cpu;
};

Seconds MeasuredSeconds(const std::deque<Outcome>& outcomes) {
  Seconds seconds;
  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict != Verdict::kMeasured) continue;
    seconds.real.push_back(outcome.summary.median);
    seconds.cpu.push_back(outcome.samples.cpu_seconds_per_step);
  }
  return seconds;
}

// Whether every measured repetition has a counter.
bool HaveAll(const std::deque<Outcome>& outcomes, std::string_view counter) {
  return std::ranges::all_of(outcomes, [&](const Outcome& outcome) {
    return outcome.verdict != Verdict::kMeasured ||
           std::ranges::any_of(outcome.counters, [&](const auto& one) { return one.first == counter; });
  });
}

// The library divides times by the number of iterations, which for an aggregate is that of the repetitions.
void SetTimes(double real, double cpu, Run& run) {
  const bool is_ratio = run.run_type == Run::RT_Aggregate && run.aggregate_unit == benchmark::kPercentage;
  const double scale = is_ratio ? 1 : static_cast<double>(run.iterations);
  run.real_accumulated_time = std::isfinite(real) ? real * scale : 0;
  run.cpu_accumulated_time = std::isfinite(cpu) ? cpu * scale : 0;
}

template <typename Reporter>
class FileReporter : public Reporter {
 public:
  template <typename... Arguments>
  FileReporter(const Session& session, std::ostream& out, Arguments... arguments)
      : Reporter(arguments...), session_(session), out_(out) {}

  bool ReportContext(const BenchmarkReporter::Context& context) override {
    // The library has set the streams of its own file, of which CSV would begin with a text about the machine.
    this->SetOutputStream(&out_);
    this->SetErrorStream(&discarded_);
    return Reporter::ReportContext(context);
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    std::ranges::move(ResultRuns(session_, runs), std::back_inserter(runs_));
  }
  void Finalize() override {
    out_.precision(std::numeric_limits<double>::max_digits10);
    if (!runs_.empty()) Reporter::ReportRuns(runs_);
    Reporter::Finalize();
  }

 private:
  const Session& session_;
  std::ostream& out_;
  std::ostream discarded_{nullptr};
  std::vector<Run> runs_;
};

}  // namespace

std::string WhyUnmeasured(const Outcome& outcome) {
  if (outcome.verdict == Verdict::kMeasured) return "";
  return absl::StrCat(View(Name(outcome.verdict)), ": ", Printable(outcome.reason));  // may have untrusted text
}

void ReportTo(benchmark::State& state, const Outcome& outcome, bool is_first_of_several) {
  const bool is_measured = outcome.verdict == Verdict::kMeasured;
  // Before anything is skipped, because the library ends the program if repetitions differ in their iterations.
  for ([[maybe_unused]] auto iteration : state) state.SetIterationTime(is_measured ? outcome.summary.median : 0);
  if (is_measured) {
    state.SetLabel(std::string(Name(outcome.samples.stop)));
    for (const auto& [name, value] : outcome.counters) state.counters[name] = value;
  } else if (!is_first_of_several) {
    Skip(state, outcome);
  }
}

std::vector<Run> ResultRuns(const Session& session, const std::vector<Run>& runs) {
  std::vector<Run> results;
  for (Run run : runs) {
    // Each case is registered as a family, in the order of the plan.
    const std::deque<Outcome>& outcomes = session.OutcomesOf(static_cast<std::size_t>(run.family_index));
    run.run_name.iterations.clear();
    run.run_name.time_type.clear();
    if (run.run_type == Run::RT_Aggregate) {
      const Seconds seconds = MeasuredSeconds(outcomes);
      if (seconds.real.size() < 2) continue;
      SetTimes(Aggregated(run.aggregate_name, seconds.real), Aggregated(run.aggregate_name, seconds.cpu), run);
      // JSON has no NaN: the "cv" of a counter that is always 0. And "mean of 3" is not that of the two that have it.
      std::erase_if(run.counters, [&](const auto& counter) {
        return !IsFigure(counter.second.value) || !HaveAll(outcomes, counter.first);
      });
    } else {
      const Outcome& outcome = outcomes.at(static_cast<std::size_t>(run.repetition_index));
      if (outcome.verdict == Verdict::kInterrupted) continue;
      if (outcome.verdict == Verdict::kMeasured) {
        SetTimes(outcome.summary.median, outcome.samples.cpu_seconds_per_step, run);
      } else {
        MarkSkipped(outcome, run);
      }
    }
    results.push_back(std::move(run));
  }
  return results;
}

BENCHMARK_DISABLE_DEPRECATED_WARNING  // CSVReporter, which has no successor

    std::unique_ptr<BenchmarkReporter>
    MakeFileReporter(const std::string& format, bool counters_tabular, const Session& session, std::ostream& out) {
  if (format == "json") return std::make_unique<FileReporter<benchmark::JSONReporter>>(session, out);
  if (format == "csv") return std::make_unique<FileReporter<benchmark::CSVReporter>>(session, out);
  using benchmark::ConsoleReporter;
  const auto options = counters_tabular ? ConsoleReporter::OO_Tabular : ConsoleReporter::OO_None;
  return std::make_unique<FileReporter<ConsoleReporter>>(session, out, options);
}

BENCHMARK_RESTORE_DEPRECATED_WARNING

}  // namespace roofbench
