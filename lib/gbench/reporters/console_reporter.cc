// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/console_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/gbench/library.h"
#include "lib/gbench/reporters/layout.h"
#include "lib/timing/split.h"

namespace roofbench {
namespace {

constexpr char kBold[] = "1";
constexpr char kDim[] = "2";
constexpr char kRed[] = "31";
constexpr char kGreen[] = "32";
constexpr char kYellow[] = "33";

// Columns: time, FLOP/s, bytes/s, roof, reference, ci, each behind a blank.
constexpr std::size_t kWidths[] = {9, 13, 10, 7, 8, 7};
constexpr std::size_t kFigures = 9 + 13 + 10 + 7 + 8 + 7 + 6;
constexpr std::size_t kNotes = 14;  // behind them, where there is room
constexpr std::string_view kIndent = "    ";
constexpr std::size_t kLeastLabel = 18;
constexpr std::size_t kMostLabel = 46;
// What a case took of memory and what its formula said, one over the other, from where on it is said.
constexpr double kMemoryOff = 1.1;

double CounterOf(const LibraryRun& run, const std::string& name) {
  const auto found = run.counters.find(name);
  return found == run.counters.end() ? -1 : found->second.value;
}

std::string Percent(double fraction) {
  if (fraction < 0) return "-";
  return absl::StrFormat(fraction < 0.0995 ? "%.2f %%" : "%.1f %%", 100 * fraction);
}

std::string RateOf(double rate, std::string_view unit) { return rate < 0 ? "-" : HumanRate(rate, unit); }

// Good, middling, poor: the colour of a roof fraction.
const char* RoofColor(double roof) { return roof >= 0.8 ? kGreen : roof >= 0.4 ? kYellow : kRed; }

// "noisy (drift, others)", "mem 5.90x predicted".
std::vector<std::string> Notes(const LibraryRun& run, const Outcome* outcome) {
  std::vector<std::string> notes;
  if (outcome == nullptr) return notes;
  for (const char* flag : {"noisy", "disturbed", "throttled", "launch_bound"}) {
    if (CounterOf(run, flag) > 0) notes.emplace_back(flag);
  }
  if (!notes.empty() && !outcome->noise.empty() && notes.front() == "noisy")
    notes.front() += absl::StrCat(" (", absl::StrJoin(outcome->noise, ", "), ")");
  const double taken = CounterOf(run, "peak_mem");
  const double predicted = CounterOf(run, "predicted_mem");
  if (taken > 0 && predicted > 0 && (taken > kMemoryOff * predicted || predicted > kMemoryOff * taken)) {
    notes.push_back(absl::StrFormat("mem %.2fx predicted", taken / predicted));
  }
  return notes;
}

// The figures of a row, right-aligned in their columns.
std::string InColumns(const std::vector<std::string>& figures) {
  std::string line;
  for (std::size_t i = 0; i < figures.size(); ++i) absl::StrAppend(&line, " ", PadLeft(figures[i], kWidths[i]));
  return line;
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

ConsoleTable::ConsoleTable(const Session& session, bool color, std::size_t width)
    : session_(session),
      color_(color),
      width_(width),
      label_width_(std::clamp(width - std::min(width, kFigures + kNotes), kLeastLabel, kMostLabel)) {}

bool ConsoleTable::ReportContext(const Context& /*context*/) { return true; }

const PlannedCase& ConsoleTable::CaseOf(const Run& run) const { return session_.plan().at(PlanIndex(run)); }

void ConsoleTable::GoOnAfter(const std::vector<Run>& runs) {
  if (!runs.empty()) family_ = CaseOf(runs.back()).family->name();
}

void ConsoleTable::PrintLabel(const std::string& label) {
  auto& out = GetOutputStream();
  std::vector<std::string> lines = NameLines(label, width_, kIndent);
  if (lines.size() > 1 || DisplayWidth(label) > label_width_) {
    for (const std::string& line : lines) out << line << '\n';
    lines = {""};
  }
  out << PadRight(lines.front(), label_width_);
}

void ConsoleTable::PrintHeading(const std::string& family) {
  family_ = family;
  const std::string reference = absl::StrCat(View(session_.reference().prefix));
  const bool fits = family.size() <= label_width_;
  GetOutputStream() << '\n'
                    << Paint(absl::StrCat(fits ? "" : family, fits ? "" : "\n",
                                          PadRight(fits ? family : "", label_width_),
                                          InColumns({"time", "FLOP/s", "bytes/s", "roof", reference, "+-ci"})),
                             kBold)
                    << '\n';
}

void ConsoleTable::PrintError(const std::string& label, const std::string& message) {
  auto& out = GetOutputStream();
  const bool failed = message.rfind("failed", 0) == 0;
  PrintLabel(label);
  // Wrapped at words, under the place where the figures would stand.
  const std::string indent = absl::StrCat("\n", PadRight("", label_width_ + 1));
  const std::size_t room = width_ - std::min(width_, label_width_ + 1);
  const std::string text = absl::StrJoin(Wrapped(absl::StrSplit(message, ' '), room), indent);
  out << ' ' << Paint(text, failed ? kRed : kDim) << '\n';
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
  auto& out = GetOutputStream();
  PrintLabel(label);
  std::string figures = InColumns({time, rate("FLOP/s", "FLOP/s"), rate("bytes/s", "B/s"), Percent(roof),
                                   Percent(reference), Percent(CounterOf(run, "ci"))});
  const std::size_t before_roof = kWidths[0] + kWidths[1] + kWidths[2] + 4;
  if (roof >= 0 && DisplayWidth(figures) == kFigures) {
    const std::size_t at = Clipped(figures, before_roof).size();
    figures = absl::StrCat(figures.substr(0, at), Paint(figures.substr(at, kWidths[3]), RoofColor(roof)),
                           figures.substr(at + kWidths[3]));
  }
  out << figures;
  const std::vector<std::string> notes = Notes(run, outcome);
  const std::string joined = absl::StrJoin(notes, ", ");
  const bool beside = label_width_ + kFigures + 1 + DisplayWidth(joined) <= width_;
  if (!notes.empty() && beside) out << ' ' << Paint(joined, kYellow);
  out << '\n';
  if (!notes.empty() && !beside) {
    for (const std::string& line : Wrapped(absl::StrSplit(joined, ' '), width_ - kIndent.size())) {
      out << kIndent << Paint(line, kYellow) << '\n';
    }
  }
  if (outcome == nullptr || outcome->phases.empty()) return;
  std::vector<std::string> phases;
  for (std::size_t i = 0; i < outcome->phases.size(); ++i) {
    const std::string& name = outcome->phases[i];
    std::string& phase =
        phases.emplace_back(absl::StrCat(name, " ", HumanTime(timing::Median(outcome->samples.phase_seconds[i]))));
    if (const double own = CounterOf(run, name + "_roof"); own >= 0) absl::StrAppend(&phase, " (", Percent(own), ")");
    if (i + 1 < outcome->phases.size()) phase += ",";
  }
  for (const std::string& line : Wrapped(phases, width_ - kIndent.size())) {
    out << Paint(absl::StrCat(View(kIndent), line), kDim) << '\n';
  }
}

// "the repetitions split: 1 near 202 µs, 8 near 284 µs": their median is the time of one of two states.
void ConsoleTable::PrintSplit(const std::vector<Run>& runs) {
  std::vector<double> seconds;
  for (const Run& run : runs) {
    if (IsError(run) || run.run_type == Run::RT_Aggregate) continue;
    seconds.push_back(run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit));
  }
  const std::optional<timing::Split> split = timing::FindSplit(seconds);
  if (!split) return;
  const std::string text = absl::StrCat("the repetitions split: ", split->fast, " near ", HumanTime(split->fast_median),
                                        ", ", split->slow, " near ", HumanTime(split->slow_median));
  GetOutputStream() << kIndent << Paint(text, kYellow) << '\n';
}

void ConsoleTable::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const std::string& name = CaseOf(run).name;
    const std::string& family = CaseOf(run).family->name();
    if (family != family_) PrintHeading(family);
    std::string label = "  " + (name.size() > family.size() ? name.substr(family.size() + 1) : family);
    if (!run.aggregate_name.empty()) absl::StrAppend(&label, "  ", run.aggregate_name, " of ", run.repetitions);
    if (IsError(run)) {
      PrintError(label, ErrorMessage(run));
    } else {
      PrintRow(label, run, OutcomeOf(run, session_));
    }
  }
  PrintSplit(runs);
}

}  // namespace roofbench
