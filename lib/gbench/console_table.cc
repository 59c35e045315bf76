// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/console_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/text.h"
#include "lib/gbench/reporters.h"
#include "lib/results/counters.h"
#include "lib/results/evaluation.h"
#include "lib/results/figure_columns.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

constexpr std::size_t kUsual = 120;  // files and pipes have no width
constexpr std::size_t kLeast = 40;   // narrower tables are not readable

constexpr char kBold[] = "1";
constexpr char kDim[] = "2";
constexpr char kRed[] = "31";
constexpr char kGreen[] = "32";
constexpr char kYellow[] = "33";

constexpr std::size_t kFigures = 9 + 13 + 10 + 7 + 8 + 7 + 6;
constexpr std::size_t kNotes = 14;  // after the columns, if there is room
constexpr std::string_view kIndent = "    ";
constexpr std::size_t kLeastLabel = 18;
constexpr std::size_t kMostLabel = 46;
// A case's memory is reported if it differs from the prediction of its formula by this ratio and by so many bytes: of
// small cases, what libraries allocate for themselves is a large part.
constexpr double kMemoryOff = 1.1;
constexpr double kMemoryOffBytes = 16 << 20;

using Run = ConsoleTable::Run;

// -1 if there is none.
double CounterOf(const Run& run, const std::string& name) {
  const auto found = run.counters.find(name);
  return found == run.counters.end() ? -1 : found->second.value;
}

bool IsRatio(const Run& run) {
  return run.run_type == Run::RT_Aggregate && run.aggregate_unit == benchmark::kPercentage;
}

// Of a step; for a ratio, a fraction.
double SecondsOf(const Run& run) {
  return IsRatio(run) ? run.real_accumulated_time : run.real_accumulated_time / static_cast<double>(run.iterations);
}

std::string FamilyOf(const std::string& name) { return name.substr(0, name.find('/')); }

std::string Percent(double fraction) { return fraction < 0 ? "-" : HumanShare(fraction); }

std::string RateOf(double rate, std::string_view unit) { return rate < 0 ? "-" : HumanRate(rate, unit); }

// Good, medium, poor.
const char* RoofColor(double roof) { return roof >= 0.8 ? kGreen : roof >= 0.4 ? kYellow : kRed; }

// "noisy (drift, others)", "mem 5.90x predicted"; of a time that cannot be judged only why, which fits its line.
std::vector<std::string> Notes(const Run& run, const Outcome& outcome) {
  std::vector<std::string> notes;
  if (CannotBeJudged(outcome)) {
    notes.push_back(absl::StrFormat("others %.0f %%", 100 * TakenShare(outcome.conditions)));
  } else {
    for (const char* flag : {"noisy", "disturbed", "throttled", "launch_bound"}) {
      if (CounterOf(run, flag) > 0) notes.emplace_back(flag);
    }
    if (!notes.empty() && !outcome.noise.empty() && notes.front() == "noisy")
      notes.front() += absl::StrCat(" (", absl::StrJoin(outcome.noise, ", "), ")");
    if (HasFewSamples(outcome)) notes.push_back(Counted(static_cast<std::size_t>(outcome.summary.samples), "sample"));
  }
  if (CounterOf(run, "new_values") > 0) notes.emplace_back("new values for each step");
  if (const double untimed = CounterOf(run, "untimed_ms"); untimed > 0) {
    notes.push_back(absl::StrCat("prepares for ", HumanTime(untimed / 1e3), ", untimed"));
  }
  if (const double share = CounterOf(run, "unseen"); share > 0) {
    notes.push_back(absl::StrCat(HumanShare(share), " of the result too small to be checked"));
  }
  if (const double kernels = CounterOf(run, "kernel_ms"); kernels > 0) {
    notes.push_back(absl::StrCat("kernels ", HumanTime(kernels / 1e3)));
  }
  if (CounterOf(run, "power_capped") > 0) {
    const double mhz = CounterOf(run, "clock_mhz");
    notes.push_back(mhz > 0 ? absl::StrFormat("power_capped at %.0f MHz", mhz) : "power_capped");
  }
  const double taken = CounterOf(run, "peak_mem");
  const double predicted = CounterOf(run, "predicted_mem");
  const bool is_off = taken > kMemoryOff * predicted || predicted > kMemoryOff * taken;
  if (taken > 0 && predicted > 0 && is_off && std::abs(taken - predicted) > kMemoryOffBytes) {
    notes.push_back(absl::StrFormat("mem %.2fx predicted", taken / predicted));
  }
  return notes;
}

// "itl 12.3 ms", "98.1 tokens/s", "kl_mean 0.0021 nats".
std::string Headline(const CounterSpec& spec, double value) {
  for (const auto& [unit, seconds] : {std::pair{"ms", 1e-3}, {"ns", 1e-9}}) {
    if (spec.unit != unit) continue;
    return absl::StrCat(absl::StripSuffix(View(spec.name), absl::StrCat("_", unit)), " ", HumanTime(value * seconds));
  }
  if (spec.unit == "fraction") return absl::StrCat(View(spec.name), " ", HumanShare(value));
  if (spec.unit == spec.name) return HumanRate(value, spec.unit);
  if (spec.unit.ends_with("/s")) return absl::StrCat(View(spec.name), " ", HumanRate(value, spec.unit));
  return absl::StrFormat("%s %.3g%s", View(spec.name), value,
                         spec.unit == "number" ? "" : absl::StrCat(" ", View(spec.unit)));
}

// The phases of a step, what the case is run for, and the ranks of a collective.
std::vector<std::string> Details(const Run& run, const Outcome& outcome) {
  std::vector<std::string> details;
  for (const std::string& name : outcome.phases) {
    details.push_back(absl::StrCat(name, " ", HumanTime(CounterOf(run, name + "_ms") / 1e3)));
    if (const double own = CounterOf(run, name + "_roof"); own >= 0)
      absl::StrAppend(&details.back(), " (", Percent(own), ")");
  }
  for (const CounterSpec& spec : CounterTable()) {
    const auto found = run.counters.find(std::string(spec.name));
    if (spec.headline && found != run.counters.end()) details.push_back(Headline(spec, found->second.value));
  }
  if (const double skew = CounterOf(run, "rank_skew_ms"); skew >= 0) {
    details.push_back(absl::StrFormat("skew %s (rank %g last)", HumanTime(skew / 1e3), CounterOf(run, "last_rank")));
  }
  if (const double beta = CounterOf(run, "linkbw"); beta >= 0) {
    details.push_back(absl::StrCat("link ", HumanTime(CounterOf(run, "link_alpha_ms") / 1e3), " + bytes/(",
                                   HumanRate(beta, "B/s"), ")"));
  }
  return details;
}

// The figures of a row, right-aligned in their columns.
std::string InColumns(const std::vector<std::string>& figures) {
  std::string line;
  for (std::size_t i = 0; i < figures.size(); ++i)
    absl::StrAppend(&line, " ", PadLeft(figures[i], kFigureColumns[i].width));
  return line;
}

}  // namespace

std::size_t TerminalWidth(int file) {
  std::size_t width = 0;
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && absl::SimpleAtoi(columns, &width)) {
    if (width > 0) return std::max(kLeast, width);
  }
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return std::max<std::size_t>(kLeast, size.ws_col);
  return kUsual;
}

std::vector<std::string> NameLines(std::string name, std::size_t width, std::string_view indent) {
  std::vector<std::string> lines;
  while (DisplayWidth(name) > width) {
    const std::size_t most = Clipped(name, width).size();
    std::size_t cut = name.rfind('/', most);
    if (cut == std::string::npos || cut <= indent.size()) cut = most;
    lines.push_back(name.substr(0, cut));
    name = absl::StrCat(View(indent), name.substr(cut));
  }
  lines.push_back(std::move(name));
  return lines;
}

bool WantsColor(const std::string& flag) {
  if (const char* no_color = std::getenv("NO_COLOR"); no_color != nullptr && *no_color != '\0') return false;
  if (flag == "true" || flag == "yes" || flag == "1") return true;
  if (flag == "false" || flag == "no" || flag == "0") return false;
  return isatty(STDOUT_FILENO) != 0;
}

std::string ConsoleTable::Paint(const std::string& text, const char* code) const {
  return color_ ? absl::StrCat("\033[", code, "m", text, "\033[0m") : text;
}

ConsoleTable::ConsoleTable(std::ostream& out, const hardware::Datasheet& reference, bool color, std::size_t width)
    : out_(out),
      reference_(reference),
      color_(color),
      width_(width),
      label_width_(std::clamp(width - std::min(width, kFigures + kNotes), kLeastLabel, kMostLabel)) {}

void ConsoleTable::PrintLabel(const std::string& label) {
  std::vector<std::string> lines = NameLines(label, width_, kIndent);
  if (lines.size() > 1 || DisplayWidth(label) > label_width_) {
    for (const std::string& line : lines) out_ << line << '\n';
    lines = {""};
  }
  out_ << PadRight(lines.front(), label_width_);
}

void ConsoleTable::PrintHeading(const std::string& family) {
  family_ = family;
  const std::string reference = absl::StrCat(View(reference_.prefix));
  const bool fits = family.size() <= label_width_;
  out_ << '\n'
       << Paint(absl::StrCat(fits ? "" : family, fits ? "" : "\n", PadRight(fits ? family : "", label_width_),
                             InColumns({"time", "FLOP/s", "bytes/s", "roof", reference, "+-ci"})),
                kBold)
       << '\n';
}

void ConsoleTable::PrintError(const std::string& label, const std::string& message) {
  const bool failed = message.rfind("failed", 0) == 0;
  PrintLabel(label);
  // Wrapped at words and aligned with the column of the figures.
  const std::string indent = absl::StrCat("\n", PadRight("", label_width_ + 1));
  const std::size_t room = width_ - std::min(width_, label_width_ + 1);
  const std::string text = absl::StrJoin(Wrapped(absl::StrSplit(message, ' '), room), indent);
  out_ << ' ' << Paint(text, failed ? kRed : kDim) << '\n';
}

void ConsoleTable::PrintRow(const std::string& label, const Run& run, const Outcome* outcome) {
  const std::string prefix(reference_.prefix);
  const double roof = CounterOf(run, "roof");
  const double reference = std::max(CounterOf(run, prefix + "_flop_util"), CounterOf(run, prefix + "_mem_util"));
  const std::string time = IsRatio(run) ? Percent(SecondsOf(run)) : HumanTime(SecondsOf(run));
  const auto rate = [&](const char* counter, const char* unit) {
    return IsRatio(run) ? Percent(CounterOf(run, counter)) : RateOf(CounterOf(run, counter), unit);
  };
  PrintLabel(label);
  const double ci = CounterOf(run, "ci");
  std::string figures = InColumns({time, rate("FLOP/s", "FLOP/s"), rate("bytes/s", "B/s"), Percent(roof),
                                   Percent(reference), ci < 0 ? "-" : HumanHalfWidth(ci)});
  const std::size_t figures_width = DisplayWidth(figures);  // more than kFigures if one is wider than its column
  const std::size_t before_roof = kFigureColumns[0].width + kFigureColumns[1].width + kFigureColumns[2].width + 4;
  if (roof >= 0 && figures_width == kFigures) {
    const std::size_t at = Clipped(figures, before_roof).size();
    figures = absl::StrCat(figures.substr(0, at), Paint(figures.substr(at, kFigureColumns[3].width), RoofColor(roof)),
                           figures.substr(at + kFigureColumns[3].width));
  }
  out_ << figures;
  if (outcome == nullptr) {
    out_ << '\n';
    return;
  }
  const std::vector<std::string> notes = Notes(run, *outcome);
  const std::string joined = absl::StrJoin(notes, ", ");
  const bool fits = label_width_ + figures_width + 1 + DisplayWidth(joined) <= width_;
  if (!notes.empty() && fits) out_ << ' ' << Paint(joined, kYellow);
  out_ << '\n';
  if (!notes.empty() && !fits) {
    for (const std::string& line : Wrapped(absl::StrSplit(joined, ' '), width_ - kIndent.size())) {
      out_ << kIndent << Paint(line, kYellow) << '\n';
    }
  }
  std::vector<std::string> details = Details(run, *outcome);
  for (std::size_t i = 0; i + 1 < details.size(); ++i) details[i] += ",";
  if (details.empty()) return;
  for (const std::string& line : Wrapped(details, width_ - kIndent.size())) {
    out_ << Paint(absl::StrCat(View(kIndent), line), kDim) << '\n';
  }
}

// "the repetitions split: 1 near 202 µs, 8 near 284 µs": the median is then the time of one of two states.
void ConsoleTable::PrintSplit(const std::vector<double>& seconds) {
  const std::optional<timing::Split> split = timing::FindSplit(seconds);
  if (!split) return;
  const std::string text = absl::StrCat("the repetitions split: ", split->fast, " near ", HumanTime(split->fast_median),
                                        ", ", split->slow, " near ", HumanTime(split->slow_median));
  out_ << kIndent << Paint(text, kYellow) << '\n';
}

void ConsoleTable::ContinueAfter(const std::string& name) { family_ = FamilyOf(name); }

void ConsoleTable::Add(const std::vector<Run>& runs, const std::deque<Outcome>& outcomes) {
  std::vector<double> seconds;  // of the repetitions
  for (const Run& run : runs) {
    const bool is_aggregate = run.run_type == Run::RT_Aggregate;
    const Outcome* const outcome =
        is_aggregate ? nullptr : &outcomes.at(static_cast<std::size_t>(run.repetition_index));
    const std::string name = run.run_name.str();
    const std::string family = FamilyOf(name);
    if (family != family_) PrintHeading(family);
    std::string label = "  " + (name.size() > family.size() ? name.substr(family.size() + 1) : family);
    if (is_aggregate) absl::StrAppend(&label, "  ", run.aggregate_name, " of ", run.repetitions);
    if (outcome != nullptr && outcome->verdict != Verdict::kMeasured) {
      PrintError(label, WhyUnmeasured(*outcome));
      continue;
    }
    PrintRow(label, run, outcome);
    if (!is_aggregate) seconds.push_back(SecondsOf(run));
  }
  PrintSplit(seconds);
  out_.flush();
}

}  // namespace roofbench
