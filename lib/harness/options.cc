#include "lib/harness/options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/hardware/datasheet.h"
#include "lib/harness/text.h"

ABSL_FLAG(std::string, device, "auto", "what to measure: auto, cpu, cuda or cuda:N");
ABSL_FLAG(std::string, suite, "", "how much to run: quick, standard or full (quick; full where a filter is given)");
ABSL_FLAG(bool, list_axes, false, "print every family with its axes and values, and stop");
ABSL_FLAG(bool, explain_counters, false, "print the table of counters, and stop");
ABSL_FLAG(std::string, reference, "a100-sxm4-40gb",
          "datasheet that <ref>_flop_util and <ref>_mem_util are held against");
ABSL_FLAG(int64_t, warmup_iters, -1, "exactly this many warm-up steps (-1: until chunk medians are flat)");
ABSL_FLAG(int64_t, min_samples, 10, "fewest samples a case");
ABSL_FLAG(int64_t, max_samples, 5000, "most samples a case");
ABSL_FLAG(double, max_time, 0.4, "seconds of samples a case; sampling ends earlier once the median is known to 1 %");
ABSL_FLAG(double, roof_share, 0.25, "share of the time that measuring the roof beside the case takes (0: no roof)");
ABSL_FLAG(double, max_step_time, 0,
          "skip a case whose step is predicted to take longer, in seconds (0: the suite's limit)");
ABSL_FLAG(std::string, check, "on", "compare each case with a reference before timing it: on or off");
ABSL_FLAG(int32_t, threads, 0, "threads of the CPU (0: as many as LibTorch takes)");
ABSL_FLAG(uint64_t, seed, 0, "seed of all data");
ABSL_FLAG(double, plant_slowdown, 0,
          "make every step slower by this fraction, by real extra work: to test what compares results");
ABSL_FLAG(bool, unverified, false,
          "run GPU kernels, too, that --list_axes lists as unverified: no GPU has run them yet");
ABSL_FLAG(bool, nvtx, false, "mark warm-up, samples, steps and their parts as NVTX ranges, for a profiler");
ABSL_FLAG(std::string, journal, "", "file that gets a line for each finished case, with every sample");
ABSL_FLAG(bool, resume, false, "go on after the last finished case of the journal; finished ones join all outputs");
ABSL_FLAG(
    double, case_timeout, 0,
    "a case that takes longer, in seconds, has failed: the program starts anew after it (0: wait; needs --journal)");

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

struct FlagRow {
  std::string_view name;
  std::string_view value;  // how --help shows its value
  std::string_view doc;    // empty: Abseil's own help text of the flag
};

struct FlagGroup {
  std::string_view title;
  std::vector<FlagRow> flags;
};

// Every flag that is accepted, in the order of --help. Those of Google Benchmark that are not ours to read are passed
// on.
const std::vector<FlagGroup>& AllGroups() {
  static const auto* groups = new std::vector<FlagGroup>{
      {"What to run",
       {{"suite", "quick|standard|full", ""},
        {"benchmark_filter", "REGEX", "run the cases whose names match (-REGEX: those that do not)"},
        {"axis", "[FAMILY.]NAME=V1,V2", "replace the registered values of an axis (repeatable)"},
        {"device", "auto|cpu|cuda[:N]", ""},
        {"threads", "N", ""},
        {"max_step_time", "SECONDS", ""},
        {"checkpoint", "FOLDER", ""},
        {"prompt_ids", "1,2,3|FILE|-", ""},
        {"stop_ids", "1,2,3", ""},
        {"case_timeout", "SECONDS", ""},
        {"unverified", "", ""},
        {"list_axes", "", ""},
        {"benchmark_list_tests", "", "print the names of the chosen cases, and stop"}}},
      {"How to measure",
       {{"warmup_iters", "N", ""},
        {"min_samples", "N", ""},
        {"max_samples", "N", ""},
        {"max_time", "SECONDS", ""},
        {"roof_share", "FRACTION", ""},
        {"benchmark_min_time", "SECONDS|Nx", "as --max_time; Nx takes exactly N samples"},
        {"benchmark_min_warmup_time", "SECONDS", "longest automatic warm-up"},
        {"benchmark_repetitions", "N", "independent builds and medians of each case, with mean, median, stddev and cv"},
        {"benchmark_enable_random_interleaving", "", "repetitions of all cases in random order"},
        {"check", "on|off", ""},
        {"seed", "N", ""},
        {"nvtx", "", ""},
        {"reference", "DEVICE", ""},
        {"plant_slowdown", "FRACTION", ""}}},
      {"What to write",
       {{"benchmark_format", "console|json|csv", "what goes to standard output"},
        {"benchmark_out", "FILE", "also write the results to a file, all of it or nothing"},
        {"benchmark_out_format", "json|csv", "format of that file"},
        {"tokens_out", "FILE", ""},
        {"journal", "FILE", ""},
        {"resume", "", ""},
        {"benchmark_report_aggregates_only", "", "only mean, median, stddev and cv of the repetitions"},
        {"benchmark_display_aggregates_only", "", "the same, on standard output only"},
        {"benchmark_context", "KEY=VALUE,…", "more facts for the context of the results"},
        {"benchmark_color", "auto|true|false", "colours on the console (NO_COLOR is respected)"},
        {"explain_counters", "", ""}}},
  };
  return *groups;
}

// Without the flags of families that this program does not have, as where others link the harness for theirs.
const std::vector<FlagGroup>& Groups() {
  static const auto* groups = [] {
    auto* linked = new std::vector<FlagGroup>(AllGroups());
    for (FlagGroup& group : *linked) {
      std::erase_if(group.flags, [](const FlagRow& row) {
        return row.doc.empty() && absl::FindCommandLineFlag(View(row.name)) == nullptr;
      });
    }
    return linked;
  }();
  return *groups;
}

// Flags of Google Benchmark whose meaning we keep but whose work we do, or which make no sense here.
const std::map<std::string, std::string>& RefusedLibraryFlags() {
  static const auto* refused = new std::map<std::string, std::string>{
      {"benchmark_counters_tabular", "the console is always a table"},
      {"benchmark_time_unit", "every case is in milliseconds, so that results can be compared"},
      {"benchmark_perf_counters", "hardware counters would cover warm-up and roof slices too; use perf stat"},
      {"benchmark_dry_run", "use --benchmark_min_time=1x --check=on"},
  };
  return *refused;
}

std::vector<std::string> KnownFlags() {
  std::vector<std::string> names = {"help"};
  for (const FlagGroup& group : Groups()) {
    for (const FlagRow& row : group.flags) names.emplace_back(row.name);
  }
  return names;
}

// "--name=value" or "--name": the parts. nullopt for what is no flag.
struct Argument {
  std::string name;
  std::optional<std::string> value;
};

std::optional<Argument> SplitArgument(const std::string& text) {
  if (!absl::StartsWith(text, "-") || text == "-" || text == "--") return std::nullopt;
  const std::string body(absl::StripPrefix(absl::StripPrefix(text, "-"), "-"));
  const std::size_t equals = body.find('=');
  if (equals == std::string::npos) return Argument{body, std::nullopt};
  return Argument{body.substr(0, equals), body.substr(equals + 1)};
}

absl::StatusOr<AxisOverride> ParseAxis(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  AxisOverride axis{.axis = parts.first, .values = absl::StrSplit(parts.second, ',', absl::SkipEmpty())};
  const std::size_t dot = axis.axis.find('.');
  if (dot != std::string::npos) {
    axis.family = axis.axis.substr(0, dot);
    axis.axis = axis.axis.substr(dot + 1);
  }
  if (axis.axis.empty() || axis.values.empty()) {
    return InvalidArgumentError(
        StrCat("--axis=", text, ": expected [family.]name=v1,v2,…, as in --axis=matmul.n=3000"));
  }
  return axis;
}

// Seconds as "1.5" or "1.5s"; positive and below a day.
absl::StatusOr<double> ParseSeconds(const std::string& flag, const std::string& text) {
  double seconds = 0;
  constexpr double kDay = 86400;
  if (!absl::SimpleAtod(absl::StripSuffix(text, "s"), &seconds) || !(seconds >= 0) || seconds > kDay) {
    return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected seconds from 0 to 86400"));
  }
  return seconds;
}

absl::StatusOr<int64_t> ParseCount(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < least || count > most) {
    return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected a whole number from ", least, " to ", most));
  }
  return count;
}

absl::StatusOr<std::string> OneOf(const std::string& flag, const std::string& text,
                                  const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected ", absl::StrJoin(choices, ", ")));
}

bool IsTrue(const std::optional<std::string>& value) {
  return !value || *value == "true" || *value == "1" || *value == "yes" || *value == "on";
}

// --benchmark_min_time: a budget in seconds, or "Nx": exactly N samples.
absl::Status ApplyMinTime(const std::string& text, Options& options) {
  if (absl::EndsWith(text, "x")) {
    const auto samples = ParseCount("benchmark_min_time", text.substr(0, text.size() - 1), 1, 10'000'000);
    if (!samples.ok()) {
      return InvalidArgumentError(StrCat("--benchmark_min_time=", text, ": expected seconds, or a count as in 20x"));
    }
    options.sampling.max_samples = *samples;
    options.sampling.exact_samples = true;
    return absl::OkStatus();
  }
  const auto seconds = ParseSeconds("benchmark_min_time", text);
  if (!seconds.ok()) return seconds.status();
  options.sampling.max_time = *seconds;
  return absl::OkStatus();
}

// The flags of Google Benchmark that we read ourselves. True if `argument` was one of them.
absl::StatusOr<bool> ApplyLibraryFlag(const Argument& argument, Options& options) {
  const std::string& name = argument.name;
  const std::string value = argument.value.value_or("");
  if (name == "benchmark_filter") {
    options.filter = value;
  } else if (name == "benchmark_out") {
    options.out = value;
  } else if (name == "benchmark_color") {
    options.color = value;
  } else if (name == "benchmark_list_tests") {
    options.list_tests = IsTrue(argument.value);
  } else if (name == "benchmark_out_format") {
    const auto format = OneOf(name, value, {"json", "csv"});
    if (!format.ok()) return format.status();
    options.out_format = *format;
  } else if (name == "benchmark_format") {
    const auto format = OneOf(name, value, {"console", "json", "csv"});
    if (!format.ok()) return format.status();
    options.format = *format;
  } else if (name == "benchmark_min_time") {
    if (absl::Status status = ApplyMinTime(value, options); !status.ok()) return status;
  } else if (name == "benchmark_min_warmup_time") {
    const auto seconds = ParseSeconds(name, value);
    if (!seconds.ok()) return seconds.status();
    options.sampling.max_warmup_time = *seconds;
  } else {
    return false;
  }
  return true;
}

absl::Status ApplyArgument(const std::string& text, Options& options) {
  const std::optional<Argument> argument = SplitArgument(text);
  if (!argument) return InvalidArgumentError(StrCat("'", text, "' is no flag; cases are chosen by --benchmark_filter"));
  const std::string& name = argument->name;
  if (name == "help" || name == "h") {
    options.help = true;
    return absl::OkStatus();
  }
  const std::vector<std::string> known = KnownFlags();
  const auto refused = RefusedLibraryFlags().find(name);
  if (refused != RefusedLibraryFlags().end()) return InvalidArgumentError(StrCat("--", name, ": ", refused->second));
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string nearest = Nearest(name, known);
    return InvalidArgumentError(StrCat("unknown flag --", name,
                                       nearest.empty() ? "" : StrCat("; did you mean --", nearest, "?"),
                                       " (--help lists all)"));
  }
  if (name == "axis") {
    const auto axis = ParseAxis(argument->value.value_or(""));
    if (!axis.ok()) return axis.status();
    options.axes.push_back(*axis);
    return absl::OkStatus();
  }
  if (absl::StartsWith(name, "benchmark_")) {
    const auto applied = ApplyLibraryFlag(*argument, options);
    if (!applied.ok()) return applied.status();
    if (name == "benchmark_repetitions") {
      const auto count = ParseCount(name, argument->value.value_or(""), 1, 1'000'000);
      if (!count.ok()) return count.status();
    }
    if (!*applied) options.library_arguments.push_back(text);
    return absl::OkStatus();
  }
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  std::string error;
  const bool is_switch = flag->IsOfType<bool>();
  if (!argument->value && !is_switch) return InvalidArgumentError(StrCat("--", name, " needs a value: --", name, "=…"));
  if (!flag->ParseFrom(argument->value.value_or("true"), &error)) {
    return InvalidArgumentError(StrCat("--", name, "=", argument->value.value_or(""), ": ",
                                       error.empty() ? "not a valid value" : error, " (", std::string(flag->Help()),
                                       ")"));
  }
  return absl::OkStatus();
}

// The variables that Google Benchmark would read and that we read in its place, as flags.
std::vector<std::string> EnvironmentArguments() {
  std::vector<std::string> arguments;
  for (const FlagGroup& group : Groups()) {
    for (const FlagRow& row : group.flags) {
      if (row.name.rfind("benchmark_", 0) != 0) continue;
      const std::string variable = absl::AsciiStrToUpper(View(row.name));
      if (const char* value = std::getenv(variable.c_str()); value != nullptr && *value != '\0') {
        arguments.push_back(StrCat("--", View(row.name), "=", value));
      }
    }
  }
  return arguments;
}

// Flags that say where results go or when to give up, not what is measured or how: a run may go on with others.
bool IsAside(const std::string& name) {
  constexpr std::string_view kAside[] = {"benchmark_out",
                                         "benchmark_out_format",
                                         "benchmark_format",
                                         "benchmark_color",
                                         "benchmark_report_aggregates_only",
                                         "benchmark_display_aggregates_only",
                                         "tokens_out",
                                         "journal",
                                         "resume",
                                         "case_timeout"};
  return std::find(std::begin(kAside), std::end(kAside), name) != std::end(kAside);
}

// The flags that make a run what it is, in an order of their own: the last of two that contradict each other counts.
std::vector<std::string> MeasuringFlags(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const std::string& text : texts) {
    const std::optional<Argument> argument = SplitArgument(text);
    if (!argument || IsAside(argument->name)) continue;
    const bool budget = argument->name == "benchmark_min_time";  // another name of max_time
    flags.emplace_back(budget ? "max_time" : argument->name,
                       StrCat("--", argument->name, argument->value ? StrCat("=", *argument->value) : ""));
  }
  std::stable_sort(flags.begin(), flags.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sorted;
  for (auto& [name, text] : flags) sorted.push_back(std::move(text));
  return sorted;
}

// Values that are valid one by one but not together, or that Abseil cannot judge.
absl::Status ReadFlags(Options& options) {
  options.device = absl::GetFlag(FLAGS_device);
  const std::string suite = absl::GetFlag(FLAGS_suite);
  options.suite_given = !suite.empty();
  if (options.suite_given) {
    const auto name = OneOf("suite", suite, {"quick", "standard", "full"});
    if (!name.ok()) return name.status();
    options.suite = *name == "quick" ? Suite::kQuick : *name == "standard" ? Suite::kStandard : Suite::kFull;
  } else {
    // A filter says what is wanted: nothing that it names is held back.
    options.suite = options.filter.empty() ? Suite::kQuick : Suite::kFull;
  }
  options.reference = absl::GetFlag(FLAGS_reference);
  if (hardware::FindDatasheet(options.reference) == nullptr) {
    std::vector<std::string> names;
    for (const hardware::Datasheet& sheet : hardware::Datasheets()) names.emplace_back(sheet.name);
    return InvalidArgumentError(
        StrCat("--reference=", options.reference, ": no such datasheet; there are ", absl::StrJoin(names, ", ")));
  }
  const auto check = OneOf("check", absl::GetFlag(FLAGS_check), {"on", "off"});
  if (!check.ok()) return check.status();
  options.check = *check == "on";
  const auto threads = ParseCount("threads", StrCat(absl::GetFlag(FLAGS_threads)), 0, 4096);
  if (!threads.ok()) return threads.status();
  options.threads = static_cast<int>(*threads);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.journal = absl::GetFlag(FLAGS_journal);
  options.resume = absl::GetFlag(FLAGS_resume);
  options.case_timeout = absl::GetFlag(FLAGS_case_timeout);
  for (const auto& [flag, wanted] :
       {std::pair<const char*, bool>{"resume", options.resume}, {"case_timeout", options.case_timeout > 0}}) {
    if (wanted && options.journal.empty()) {
      return InvalidArgumentError(StrCat("--", flag, " needs --journal=FILE, where the finished cases are kept"));
    }
  }
  options.list_axes = absl::GetFlag(FLAGS_list_axes);
  options.explain_counters = absl::GetFlag(FLAGS_explain_counters);
  options.unverified = absl::GetFlag(FLAGS_unverified);
  options.nvtx = absl::GetFlag(FLAGS_nvtx);

  timing::SampleOptions& sampling = options.sampling;
  const auto warmup = ParseCount("warmup_iters", StrCat(absl::GetFlag(FLAGS_warmup_iters)), -1, 1'000'000'000);
  if (!warmup.ok()) return warmup.status();
  if (*warmup >= 0) sampling.warmup_iters = *warmup;
  const auto least = ParseCount("min_samples", StrCat(absl::GetFlag(FLAGS_min_samples)), 1, 10'000'000);
  if (!least.ok()) return least.status();
  const auto most = ParseCount("max_samples", StrCat(absl::GetFlag(FLAGS_max_samples)), 1, 10'000'000);
  if (!most.ok()) return most.status();
  if (*least > *most) {
    return InvalidArgumentError(StrCat("--min_samples=", *least, " is above --max_samples=", *most));
  }
  sampling.min_samples = *least;
  if (!sampling.exact_samples) sampling.max_samples = *most;
  for (const auto& [flag, value] : {std::pair<const char*, double>{"max_time", absl::GetFlag(FLAGS_max_time)},
                                    {"max_step_time", absl::GetFlag(FLAGS_max_step_time)},
                                    {"case_timeout", absl::GetFlag(FLAGS_case_timeout)}}) {
    if (const auto seconds = ParseSeconds(flag, StrCat(value)); !seconds.ok()) return seconds.status();
  }
  options.max_step_time = absl::GetFlag(FLAGS_max_step_time);
  sampling.roof_share = absl::GetFlag(FLAGS_roof_share);
  if (!(sampling.roof_share >= 0) || sampling.roof_share > 0.9) {
    return InvalidArgumentError(StrCat("--roof_share=", sampling.roof_share, ": expected a fraction from 0 to 0.9"));
  }
  options.plant_slowdown = absl::GetFlag(FLAGS_plant_slowdown);
  if (!(options.plant_slowdown >= 0) || options.plant_slowdown > 10) {
    return InvalidArgumentError(
        StrCat("--plant_slowdown=", options.plant_slowdown, ": expected a fraction from 0 to 10"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  options.library_arguments = {arguments.empty() ? "roofbench" : arguments.front()};
  std::vector<std::string> all = EnvironmentArguments();  // first, so that the command line wins
  if (!arguments.empty()) all.insert(all.end(), arguments.begin() + 1, arguments.end());
  // --max_time and --benchmark_min_time are one budget: whichever comes last counts.
  for (const std::string& text : all) {
    if (absl::Status status = ApplyArgument(text, options); !status.ok()) return status;
    const auto argument = SplitArgument(text);
    if (argument && argument->name == "max_time") options.sampling.max_time = absl::GetFlag(FLAGS_max_time);
  }
  if (absl::Status status = ReadFlags(options); !status.ok()) return status;
  options.measuring_flags = MeasuringFlags(all);
  // Everything but the samples themselves: building, warm-up, roof slices.
  options.sampling.max_wall = std::max(2.0, 4 * options.sampling.max_time);
  return options;
}

std::string HelpText() {
  std::string text =
      "roofbench: how fast is deep-learning work on this machine, and how far from possible?\n\n"
      "usage: roofbench [flags]\n";
  for (const FlagGroup& group : Groups()) {
    absl::StrAppend(&text, "\n", View(group.title), "\n");
    for (const FlagRow& row : group.flags) {
      const std::string flag = StrCat("  --", View(row.name), row.value.empty() ? "" : "=", View(row.value));
      const absl::CommandLineFlag* ours = absl::FindCommandLineFlag(View(row.name));
      const std::string doc = row.doc.empty() ? ours->Help() : std::string(row.doc);
      absl::StrAppend(&text, flag, flag.size() < 40 ? std::string(40 - flag.size(), ' ') : "\n" + std::string(40, ' '),
                      doc);
      if (ours != nullptr && !ours->IsOfType<bool>() && !ours->DefaultValue().empty()) {
        absl::StrAppend(&text, " [", ours->DefaultValue(), "]");
      }
      absl::StrAppend(&text, "\n");
    }
  }
  absl::StrAppend(&text,
                  "\nExamples\n"
                  "  roofbench                                                  the quick suite\n"
                  "  roofbench --benchmark_filter='matmul/.*bf16'               every bf16 matrix product\n"
                  "  roofbench --benchmark_filter=matmul --axis=matmul.n=3000   a size of your own\n"
                  "  roofbench --benchmark_filter=^mlp/ --benchmark_repetitions=9 --benchmark_out=mlp.json\n"
                  "  roofbench --suite=standard --threads=1 --max_step_time=1   one thread, nothing slow\n"
                  "  roofbench --suite=full --benchmark_out=full.json --journal=full.jsonl --case_timeout=900\n"
                  "  roofbench --suite=full --benchmark_out=full.json --journal=full.jsonl --resume\n"
                  "\nExit status\n"
                  "  0        everything that can run here was measured\n"
                  "  1        a case failed, or an output could not be written\n"
                  "  2        refused before anything ran: a flag, a file, a device\n"
                  "  128 + n  ended by signal n, with everything measured so far written\n");
  return text;
}

void ClearLibraryEnvironment() {
  for (const FlagGroup& group : Groups()) {
    for (const FlagRow& row : group.flags) {
      if (row.name.rfind("benchmark_", 0) == 0) unsetenv(absl::AsciiStrToUpper(View(row.name)).c_str());
    }
  }
}

std::string_view Name(Suite suite) {
  constexpr std::string_view kNames[] = {"quick", "standard", "full"};
  return kNames[static_cast<int>(suite)];
}

}  // namespace roofbench
