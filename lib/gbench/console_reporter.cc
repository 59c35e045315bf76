// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/console_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/gbench/library.h"

namespace roofbench {
namespace {

constexpr char kBold[] = "1";
constexpr char kDim[] = "2";
constexpr char kRed[] = "31";
constexpr char kGreen[] = "32";
constexpr char kYellow[] = "33";

constexpr std::size_t kLabelWidth = 46;
constexpr std::size_t kTableWidth = 120;

double CounterOf(const LibraryRun& run, const std::string& name) {
  const auto found = run.counters.find(name);
  return found == run.counters.end() ? -1 : found->second.value;
}

std::string Percent(double fraction) {
  if (fraction < 0) return "-";
  return absl::StrFormat(fraction < 0.0995 ? "%.2f%%" : "%.1f%%", 100 * fraction);
}

std::string RateOf(double rate, std::string_view unit) { return rate < 0 ? "-" : HumanRate(rate, unit); }

// Good, middling, poor: the colour of a roof fraction.
const char* RoofColor(double roof) { return roof >= 0.8 ? kGreen : roof >= 0.4 ? kYellow : kRed; }

std::string Notes(const LibraryRun& run, const Outcome* outcome) {
  std::vector<std::string> notes;
  for (const char* flag : {"noisy", "disturbed", "throttled", "launch_bound"}) {
    if (CounterOf(run, flag) > 0 && outcome != nullptr) notes.emplace_back(flag);
  }
  return absl::StrJoin(notes, ",");
}

}  // namespace

bool WantsColor(const std::string& flag) {
  if (const char* no_color = std::getenv("NO_COLOR"); no_color != nullptr && *no_color != '\0') return false;
  if (flag == "true" || flag == "yes" || flag == "1") return true;
  if (flag == "false" || flag == "no" || flag == "0") return false;
  return isatty(STDOUT_FILENO) != 0;
}

std::string ConsoleTable::Paint(const std::string& text, const char* code) const {
  return color_ ? absl::StrCat("\033[", code, "m", text, "\033[0m") : text;
}

bool ConsoleTable::ReportContext(const Context& /*context*/) { return true; }

const PlannedCase& ConsoleTable::CaseOf(const Run& run) const { return session_.plan().at(PlanIndex(run)); }

void ConsoleTable::GoOnAfter(const std::vector<Run>& runs) {
  if (!runs.empty()) family_ = CaseOf(runs.back()).family->name();
}

void ConsoleTable::PrintHeading(const std::string& family) {
  family_ = family;
  const std::string reference = absl::StrCat(View(session_.reference().prefix));
  GetOutputStream() << '\n'
                    << Paint(absl::StrFormat("%-*s %9s %13s %10s %7s %8s %7s", static_cast<int>(kLabelWidth), family,
                                             "time", "FLOP/s", "bytes/s", "roof", reference, "+-ci"),
                             kBold)
                    << '\n';
}

void ConsoleTable::PrintError(const std::string& label, const std::string& message) {
  auto& out = GetOutputStream();
  const bool failed = message.rfind("failed", 0) == 0;
  out << absl::StrFormat("%-*s ", static_cast<int>(kLabelWidth), label);
  // Wrapped at words, under the place where the figures would stand.
  const std::string indent = "\n" + std::string(kLabelWidth + 1, ' ');
  const std::string text = absl::StrJoin(Wrapped(absl::StrSplit(message, ' '), kTableWidth - kLabelWidth - 1), indent);
  out << Paint(text, failed ? kRed : kDim) << '\n';
}

void ConsoleTable::PrintRow(const std::string& label, const Run& run, const Outcome* outcome) {
  const std::string prefix(session_.reference().prefix);
  const double seconds = run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit);
  const double roof = CounterOf(run, "roof");
  const double reference = std::max(CounterOf(run, prefix + "_flop_util"), CounterOf(run, prefix + "_mem_util"));
  const bool is_ratio = run.run_type == Run::RT_Aggregate && run.aggregate_unit == benchmark::kPercentage;
  const std::string time = is_ratio ? Percent(run.real_accumulated_time) : HumanTime(seconds);
  const auto rate = [&](const char* counter, const char* unit) {
    return is_ratio ? Percent(CounterOf(run, counter)) : RateOf(CounterOf(run, counter), unit);
  };
  const std::string roof_text = absl::StrFormat("%7s", Percent(roof));
  auto& out = GetOutputStream();
  std::string shown = label;
  if (shown.size() > kLabelWidth) {
    out << shown << '\n';
    shown.clear();
  }
  out << absl::StrFormat("%-*s %9s %13s %10s ", static_cast<int>(kLabelWidth), shown, time, rate("FLOP/s", "FLOP/s"),
                         rate("bytes/s", "B/s"))
      << (roof >= 0 ? Paint(roof_text, RoofColor(roof)) : roof_text)
      << absl::StrFormat(" %8s %7s", Percent(reference), Percent(CounterOf(run, "ci")));
  const std::string notes = Notes(run, outcome);
  if (!notes.empty()) out << ' ' << Paint(notes, kYellow);
  out << '\n';
  if (outcome == nullptr || outcome->phases.empty()) return;
  std::vector<std::string> phases;
  for (std::size_t i = 0; i < outcome->phases.size(); ++i) {
    const std::string& name = outcome->phases[i];
    std::string& phase =
        phases.emplace_back(absl::StrCat(name, " ", HumanTime(timing::Median(outcome->samples.phase_seconds[i]))));
    if (const double own = CounterOf(run, name + "_roof"); own >= 0) absl::StrAppend(&phase, " (", Percent(own), ")");
    if (i + 1 < outcome->phases.size()) phase += ",";
  }
  const std::string indent = "    ";
  for (const std::string& line : Wrapped(phases, kTableWidth - indent.size())) {
    out << Paint(indent + line, kDim) << '\n';
  }
}

void ConsoleTable::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const std::string& name = CaseOf(run).name;
    const std::string& family = CaseOf(run).family->name();
    if (family != family_) PrintHeading(family);
    std::string label = "  " + (name.size() > family.size() ? name.substr(family.size() + 1) : family);
    if (!run.aggregate_name.empty()) label = absl::StrCat("    ", run.aggregate_name, " of ", run.repetitions);
    if (IsError(run)) {
      PrintError(label, ErrorMessage(run));
    } else {
      PrintRow(label, run, OutcomeOf(run, session_));
    }
  }
}

}  // namespace roofbench
