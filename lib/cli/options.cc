// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/options.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/text.h"
#include "lib/cli/output_names.h"
#include "lib/gbench/context_facts.h"
#include "lib/hardware/datasheet.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/observe/profile/tables.h"
#include "lib/results/journal.h"

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr int64_t kMostSamples = 10'000'000;
constexpr int64_t kMostRows = 1'000'000;

absl::StatusOr<AxisOverride> ParseAxis(const std::string& text) { return ParseAxisOverride(text, "--list_axes"); }

absl::StatusOr<AxisOverride> ParseRanks(const std::string& text) {
  absl::StatusOr<AxisOverride> ranks = ParseAxis(StrCat(kRanksAxis, "=", text));
  if (ranks.ok()) ranks->flag = "--ranks";
  return ranks;
}

// Parses texts and appends them to a list.
template <typename Entry, typename Parse>
FlagTarget Appended(std::vector<Entry>& target, Parse parse) {
  return {.read = [&target, parse](const std::string& text) -> absl::Status {
    auto parsed = parse(text);
    if (!parsed.ok()) return parsed.status();
    if constexpr (requires { target.push_back(*parsed); }) {
      target.push_back(*std::move(parsed));
    } else {
      target.insert(target.end(), parsed->begin(), parsed->end());
    }
    return absl::OkStatus();
  }};
}

// A budget in seconds, or "Nx": exactly N samples.
FlagTarget MinTime(Options& options) {
  return {.read = [&options](const std::string& text) {
    if (!absl::EndsWith(text, "x")) return Seconds(options.sampling.max_time).read(text);
    const std::string count = text.substr(0, text.size() - 1);
    const absl::Status status = Whole<int64_t>(options.exact_samples, 1, kMostSamples).read(count);
    return status.ok() ? status : Expected("seconds, or a count of samples as in 20x");
  }};
}

// A switch that accepts one other word, which sets a second variable as well.
FlagTarget SwitchOr(const std::string& word, bool& target, bool& also) {
  return {.read =
              [&target, &also, word](const std::string& text) {
                if (text == word) {
                  target = also = true;
                  return absl::OkStatus();
                }
                const absl::Status status = Switch(target).read(text);
                return status.ok() ? status : Expected(StrCat("true, false or ", word));
              },
          .is_switch = true};
}

// For a flag that Google Benchmark alone acts on.
FlagTarget SwitchOfLibrary() {
  static bool ignored;
  return Switch(ignored);
}

FlagTarget UnitOfLibrary() {
  // Fine enough for compare.py, which prints integers.
  static std::string ignored = "us";
  return OneOf(ignored, {"ns", "us", "ms", "s"});
}

FlagTarget LevelOfLibrary() {
  static int ignored = 0;
  return Whole(ignored, 0, 99);
}

FlagTarget WarmupIters(std::optional<int64_t>& target) {
  return {.read =
              [&target](const std::string& text) {
                int64_t count = 0;
                const absl::Status status = Whole<int64_t>(count, -1, 1'000'000'000).read(text);
                if (status.ok()) target = count < 0 ? std::nullopt : std::optional(count);
                return status;
              },
          .default_text = "-1"};
}

std::vector<std::string> References() {
  std::vector<std::string> names;
  for (const hardware::Datasheet& sheet : hardware::Datasheets()) names.emplace_back(sheet.name);
  return names;
}

}  // namespace

std::vector<FlagGroup> FlagTable(Options& o) {
  timing::SampleOptions& sampling = o.sampling;
  std::vector<std::pair<std::string, Suite>> suites;
  for (const Suite suite : {Suite::kQuick, Suite::kStandard, Suite::kFull, Suite::kMachineQuick, Suite::kMachine}) {
    suites.emplace_back(Name(suite), suite);
  }
  const std::vector<std::pair<std::string, bool>> on_off = {{"on", true}, {"off", false}};
  const std::vector<std::pair<std::string, hardware::Allocator>> allocators = {
      {"tuned", hardware::Allocator::kTuned}, {"system", hardware::Allocator::kSystem}};
  const std::vector<std::pair<std::string, RoofSource>> roofs = {
      {"reuse", RoofSource::kReuse}, {"measure", RoofSource::kMeasure}, {"off", RoofSource::kOff}};
  return {
      {"What to run",
       {{"suite", "quick|…|full|machine", OneOf(o.suite, suites), "how much to run; with a filter: full", kCommon},
        {"benchmark_filter", "REGEX", Text(o.filter), "run what matches, -REGEX: the rest; or --filter", kCommon},
        {"axis", "[FAMILY.]NAME=V1,V2", Appended(o.axes, ParseAxis), "replace values, as 1,2 or 256:4096:x2 or 1:9:+2",
         kCommon},
        {"device", "auto|cpu|cuda[:N]", Text(o.device), "what to measure", kCommon},
        {"threads", "N", Whole(o.threads, 0, 4096), "CPU threads (0: LibTorch's choice)", kCommon},
        {"oversubscribe", "", Switch(o.oversubscribe), "allow more threads than there are processors"},
        {"max_step_time", "SECONDS", Seconds(o.max_step_time), "skip longer steps (0: the suite's limit)", kCommon},
        {"case_timeout", "SECONDS", Seconds(o.case_timeout), "fail a case that takes longer (0: never)",
         kAside | kCommon},
        {"ranks", "N1,N2", Appended(o.axes, ParseRanks), "processes of cases that run on several, as --axis=ranks=…",
         kCommon},
        {"rank_timeout", "SECONDS", Number(o.rank_timeout, 1, 86400),
         "fail a case if a rank waits longer for another one", kAside},
        {"supervise", "true|false", Switch(o.supervise),
         "run the cases in a child process, so that a crash or a hang is a failed case [true]; false: for a debugger",
         kAside},
        {"unverified", "", Switch(o.unverified),
         "also run the GPU kernels that --list_axes lists as unverified: no GPU has run them yet"},
        {"slow_precisions", "", Switch(o.slow_precisions),
         "also run precisions that the processor has no arithmetic for, which take hundreds of times as long"},
        {"list_axes", "", Switch(o.list_axes), "print all families with their axes, and exit", kCommon},
        {"benchmark_list_tests", "[json]", SwitchOr("json", o.list_tests, o.list_json),
         "print the selected cases, and exit", kCommon}}},
      {"Flags of single families", RegisteredFlags()},
      {"How to measure",
       {{"max_time", "SECONDS", Seconds(sampling.max_time), "longest sampling per case; ends at 1 % ci", kCommon},
        {"benchmark_min_time", "SECONDS|Nx", MinTime(o), "as --max_time; Nx takes exactly N samples"},
        {"min_samples", "N", Whole<int64_t>(sampling.min_samples, 1, kMostSamples), "fewest samples per case"},
        {"max_samples", "N", Whole<int64_t>(sampling.max_samples, 1, kMostSamples), "most samples per case"},
        {"warmup_iters", "N", WarmupIters(sampling.warmup_iters), "warm-up steps (-1: until medians are flat)",
         kCommon},
        {"benchmark_min_warmup_time", "SECONDS", Seconds(o.min_warmup_time), "shortest warm-up"},
        {"max_warmup_time", "SECONDS", Seconds(sampling.max_warmup_time), "longest automatic warm-up after that"},
        {"benchmark_dry_run", "", Switch(o.dry_run),
         "check each case and run one step more, once: no warm-up, repetitions or roofs", kLibrary},
        {"benchmark_repetitions", "N", Whole(o.repetitions, 1, 1'000'000), "independent medians per case, aggregated",
         kCommon},
        {"benchmark_enable_random_interleaving", "", SwitchOfLibrary(),
         "run the repetitions of all cases in random order", kLibrary},
        {"fresh_process", "", Switch(o.fresh_process), "measure each repetition in a new process", kCommon},
        {"wait_quiet", "SECONDS", Seconds(o.wait_quiet), "longest wait for an otherwise idle CPU", kAside | kCommon},
        {"roofs", "reuse|measure|off", OneOf(o.roofs, roofs), "reuse roofs of the last hour", kCommon},
        {"roof_share", "FRACTION", Number(sampling.roof_share, 0, 0.9), "time share of roof probes (0: none)", kCommon},
        {"check", "on|off", OneOf(o.check, on_off), "compare results with a reference first", kCommon},
        {"seed", "N", Whole<uint64_t>(o.seed, 0, UINT64_MAX), "seed of all data", kCommon},
        {"reference", "DEVICE", OneOf(o.reference, References()), "datasheet for <ref>_flop_util", kCommon},
        {"allocator", "tuned|system", OneOf(o.allocator, allocators),
         "memory of tensors, weights and roofs: tuned uses huge pages and reuses what a step frees; system is the C "
         "library's default"},
        {"coordinate_descent_tuning", "", Switch(o.compile.coordinate_descent_tuning),
         "impl:compiled: Inductor tries more tilings of its GPU kernels"},
        {"nvtx", "", Switch(o.nvtx), "mark warm-up, samples, steps and their parts as NVTX ranges, for a profiler"},
        {"inject_delay", "FRACTION", Number(o.injected_delay, 0, 10),
         "slow every step down by this fraction with real extra work, to test comparisons of results"}}},
      {"What to write",
       {{"benchmark_format", "console|json|csv", OneOf(o.format, {"console", "json", "csv"}),
         "format of standard output", kAside | kCommon},
        {"benchmark_out", "FILE", Text(o.out), "also write the results to a file", kAside | kCommon},
        {"benchmark_out_format", "json|csv|console", OneOf(o.out_format, {"json", "csv", "console"}),
         "format of that file", kAside},
        {"journal", "FILE", Text(o.journal), "write a line per finished case, with samples", kAside | kCommon},
        {"results", "FOLDER", Text(o.results), "name results and journal after time and host", kAside | kCommon},
        {"resume", "", SwitchOr("doubtful", o.resume, o.resume_doubtful),
         "continue a run; =doubtful: its noisy rows again", kAside | kCommon | kOnce},
        {"written_to", "FILE", Text(o.written_to), "list the written files there, the record first", kAside | kOnce},
        {"tokens_out", "FILE", Text(o.tokens_out), "write the token ids that cases generated, a line per text", kAside},
        {"profile", "FOLDER", Text(o.profile.folder), "write tables and a trace of operators per case",
         kAside | kCommon},
        {"profile_steps", "N", Whole<int64_t>(o.profile.steps, 1, kMostRows),
         "steps for --profile, after a case was timed, and for --memory_snapshot", kAside},
        {"profile_sort", "COLUMN", OneOf(o.profile.sort, observe::SortColumns()),
         "sort a profile's operators by self, total, self_device, total_device, calls, flops or bytes (default: self "
         "time, on the GPU where there is one)",
         kAside},
        {"profile_rows", "N", Whole<int64_t>(o.profile.rows, 1, kMostRows),
         "most rows of a profile's text tables; CSV and JSON have all", kAside},
        {"profile_depth", "N", Whole<int64_t>(o.profile.depth, 0, kMostRows),
         "levels of a profile's tables: 1 leaves out operators inside operators and modules inside modules (0: all)",
         kAside},
        {"profile_width", "N", Whole<int64_t>(o.profile.width, 8, kMostRows),
         "most characters of a name in a profile's text tables", kAside},
        {"memory_snapshot", "FOLDER", Text(o.memory_snapshot),
         "write each allocation of a case as a pickle, from its first --profile_steps steps", kAside},
        {"benchmark_time_unit", "us|ms|s|ns", UnitOfLibrary(),
         "unit of all times in JSON and CSV; compare.py shows whole ones, and compares within one unit",
         kAside | kLibrary},
        {"benchmark_report_aggregates_only", "", SwitchOfLibrary(),
         "write only mean, median, stddev and cv of the repetitions", kAside | kLibrary},
        {"benchmark_display_aggregates_only", "", SwitchOfLibrary(), "the same, on standard output only",
         kAside | kLibrary},
        {"benchmark_context", "KEY=VALUE,…", Appended(o.context, ParseContext),
         "add facts to the context of the results"},
        {"benchmark_color", "auto|true|false", OneOf(o.color, {"auto", "true", "false", "yes", "no", "1", "0"}),
         "colors on the console (NO_COLOR is respected)", kAside},
        {"benchmark_counters_tabular", "", Switch(o.counters_tabular),
         "counters as columns of --benchmark_out_format=console; standard output always has a table", kAside},
        {"v", "N", LevelOfLibrary(), "detail of Google Benchmark's log", kAside | kLibrary}}},
      {"What to ask",
       {{"explain_counters", "", Switch(o.explain_counters), "print the table of counters, and exit", kCommon},
        {"describe", "json", OneOf(o.describe, {"json"}), "print families and counters as JSON, and exit"},
        {"doctor", "", Switch(o.doctor), "print what disturbs measurements, and exit", kCommon},
        {"version", "", Switch(o.version), "print the versions, and exit", kCommon},
        {"help", "[all]", SwitchOr("all", o.help, o.help_all), "print this or every flag, and exit", kCommon}}},
  };
}

namespace {

// "--name=value" or "--name".
struct Argument {
  std::string name;
  std::optional<std::string> value = {};
};

absl::StatusOr<Argument> SplitArgument(const std::string& text) {
  const std::string bare(absl::StripPrefix(absl::StripPrefix(text, "-"), "-"));
  if (bare.empty() || bare == text) {
    return InvalidArgumentError(StrCat("'", text, "' is not a flag; --benchmark_filter selects cases"));
  }
  if (!absl::StartsWith(text, "--") && text != "-h") {
    return InvalidArgumentError(StrCat("'", text, "': flags begin with two dashes: -", text));
  }
  const std::size_t equals = bare.find('=');
  Argument argument{.name = absl::StrReplaceAll(bare.substr(0, equals), {{"-", "_"}})};
  if (equals != std::string::npos) argument.value = bare.substr(equals + 1);
  if (argument.name == "filter") argument.name = "benchmark_filter";
  if (argument.name == "h") argument.name = "help";
  return argument;
}

// Google Benchmark flags that do not apply here, with the reasons.
constexpr std::pair<std::string_view, std::string_view> kRefused[] = {
    {"benchmark_perf_counters", "hardware counters would include warm-up and roof probes; use perf stat"},
};

absl::Status UnknownFlag(const std::string& name, const std::vector<std::string>& known) {
  for (const auto& [refused, reason] : kRefused) {
    if (name == refused) return InvalidArgumentError(StrCat("--", name, ": ", View(reason)));
  }
  const std::string nearest = Nearest(name, known);
  return InvalidArgumentError(StrCat("unknown flag --", name,
                                     nearest.empty() ? "" : StrCat("; did you mean --", nearest, "?"),
                                     " (--help=all lists all)"));
}

absl::Status ReadFlag(const Flag& flag, const Argument& argument) {
  if (!argument.value && !flag.target.is_switch) {
    return InvalidArgumentError(StrCat("--", flag.name, " needs a value: --", flag.name, "=", flag.value));
  }
  const absl::Status status = flag.target.read(argument.value.value_or("true"));
  if (status.ok()) return status;
  return InvalidArgumentError(
      StrCat("--", flag.name, "=", argument.value.value_or("true"), ": ", std::string(status.message())));
}

// Checks combinations of flags, and sets defaults that depend on other flags.
absl::Status Complete(Options& o) {
  o.suite_given = o.given.contains("suite");
  // A filter selects cases itself, so the suite must not exclude any of them.
  if (!o.suite_given && !o.filter.empty()) {
    o.suite = Suite::kFull;
    o.otherwise = Suite::kMachine;
  }
  if (o.sampling.min_samples > o.sampling.max_samples) {
    return InvalidArgumentError(
        StrCat("--min_samples=", o.sampling.min_samples, " is above --max_samples=", o.sampling.max_samples));
  }
  if (o.threads > kernels::Processors() && !o.oversubscribe) {
    return InvalidArgumentError(StrCat("--threads=", o.threads, " is above the ",
                                       Counted(kernels::Processors(), "processor"),
                                       " that this process may run on, where threads that wait for each other hardly "
                                       "advance; --oversubscribe allows them"));
  }
  if (o.case_timeout > 0 && !o.supervise) {
    return InvalidArgumentError("--case_timeout needs --supervise=true: a process cannot end its own step");
  }
  if (o.fresh_process && !o.supervise) return InvalidArgumentError("--fresh_process needs --supervise=true");
  if (o.dry_run) {
    o.exact_samples = 1;
    o.repetitions = 1;
    o.sampling.warmup_iters = 0;
    o.min_warmup_time = 0;
    o.roofs = RoofSource::kOff;
  }
  if (o.exact_samples > 0) {
    o.sampling.max_samples = o.exact_samples;
    o.sampling.exact_samples = true;
  }
  // Limits the whole sampler: warm-up, samples and roof probes.
  o.sampling.max_wall = std::max(2.0, 4 * o.sampling.max_time);
  if (o.roofs == RoofSource::kOff) o.sampling.roof_share = 0;
  return absl::OkStatus();
}

// The words quoted for a shell.
std::string CommandLine(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "-_=+.,:/@%^";
  std::vector<std::string> quoted;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char one) {
      return absl::ascii_isalnum(static_cast<unsigned char>(one)) || kPlain.find(one) != std::string_view::npos;
    });
    quoted.push_back(plain ? word : StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  }
  return absl::StrJoin(quoted, " ");
}

// Sorts flags so that their order on the command line does not matter, except for conflicting flags, of which the last
// applies.
std::vector<std::string> Sorted(std::vector<Argument> flags) {
  const auto key = [](const Argument& flag) {
    if (flag.name == "benchmark_min_time") return std::string("max_time");  // two names of one budget
    if (flag.name == "ranks") return std::string("axis");  // replaced axes vary in the order of their flags
    return flag.name;
  };
  std::stable_sort(flags.begin(), flags.end(), [&](const Argument& a, const Argument& b) { return key(a) < key(b); });
  std::vector<std::string> texts;
  for (const Argument& flag : flags) {
    texts.push_back(StrCat("--", flag.name, flag.value ? StrCat("=", *flag.value) : ""));
  }
  return texts;
}

constexpr std::string_view kVariablePrefix = "BENCHMARK_";
constexpr std::size_t kMostVariables = 100;

// Not a container, because it is filled before the C++ library is initialized.
char* g_taken[kMostVariables];

}  // namespace

// The strings live as long as the program.
__attribute__((no_sanitize("address", "undefined"))) void TakeVariables(int /*argc*/, char** /*argv*/,
                                                                        char** environment) {
  char** kept = environment;
  std::size_t count = 0;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    std::size_t same = 0;
    while (same < kVariablePrefix.size() && (*entry)[same] == kVariablePrefix[same]) ++same;
    if (same == kVariablePrefix.size() && count < kMostVariables) {
      g_taken[count++] = *entry;
    } else {
      *kept++ = *entry;
    }
  }
  *kept = nullptr;
}

namespace {

// The value of a removed variable, or of one that the program has set since.
std::string VariableOf(const std::string& name) {
  if (const char* const set = std::getenv(name.c_str()); set != nullptr) return set;
  for (const char* const entry : g_taken) {
    if (entry == nullptr) break;
    const std::string_view text = entry;
    if (text.size() > name.size() && text[name.size()] == '=' && text.substr(0, name.size()) == name) {
      return std::string(text.substr(name.size() + 1));
    }
  }
  return "";
}

// The BENCHMARK_* variables of these flags as arguments. All such variables are removed from the environment at program
// start, because Google Benchmark would read them while it is loaded, and print those that it cannot parse.
std::vector<std::string> TakeEnvironmentArguments(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments;
  for (const std::string& flag : flags) {
    const std::string variable = absl::AsciiStrToUpper(flag);
    if (!absl::StartsWith(variable, View(kVariablePrefix))) continue;
    if (const std::string value = VariableOf(variable); !value.empty()) {
      arguments.push_back(StrCat("--", flag, "=", value));
    }
    unsetenv(variable.c_str());
  }
  return arguments;
}

// Without what depends on several flags.
absl::StatusOr<Options> Parse(const std::vector<std::string>& arguments) {
  Options options;
  options.program = arguments.empty() ? "roofbench" : arguments.front();
  options.command_line = CommandLine(arguments);
  std::map<std::string, Flag> flags;
  std::vector<std::string> names;
  for (FlagGroup& group : FlagTable(options)) {
    for (Flag& flag : group.flags) {
      names.push_back(flag.name);
      flags.emplace(flag.name, std::move(flag));
    }
  }
  std::vector<std::string> texts = TakeEnvironmentArguments(names);  // first, so that the command line takes precedence
  const std::size_t inherited = texts.size();
  if (!arguments.empty()) texts.insert(texts.end(), arguments.begin() + 1, arguments.end());
  std::vector<Argument> measuring;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    const absl::StatusOr<Argument> argument = SplitArgument(text);
    if (!argument.ok()) return argument.status();
    const auto found = flags.find(argument->name);
    if (found == flags.end()) return UnknownFlag(argument->name, names);
    if (absl::Status status = ReadFlag(found->second, *argument); !status.ok()) return status;
    options.given[argument->name] = argument->value.value_or("true");
    const unsigned properties = found->second.properties;
    if ((properties & kAside) == 0) {
      measuring.push_back(*argument);
      options.says_what |= i >= inherited;
    }
    if (i >= inherited && (properties & kOnce) == 0) options.arguments.push_back(text);
    if ((properties & kLibrary) != 0) {
      options.library_flags.push_back(StrCat("--", argument->name, "=", argument->value.value_or("true")));
    }
  }
  options.measuring_flags = Sorted(std::move(measuring));
  return options;
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  absl::StatusOr<Options> options = Parse(arguments);
  if (!options.ok()) return options;
  std::string journal;
  if (options->resume) {
    const absl::StatusOr<std::string> found = JournalToResume(*options);
    if (!found.ok()) return found.status();
    journal = *found;
    // Any other journal is refused when it is opened, with the reason.
    const absl::StatusOr<RunSoFar> run = ReadRunSoFar(journal);
    if (absl::IsNotFound(run.status()) && !options->says_what) {
      return absl::NotFoundError(StrCat("--resume: there is no journal ", journal,
                                        ", and no flag says what to run; check its name, or give the run's flags"));
    }
    if (run.ok() && !options->says_what) {
      std::vector<std::string> both = {options->program};
      both.insert(both.end(), run->arguments.begin(), run->arguments.end());
      both.insert(both.end(), arguments.begin() + 1, arguments.end());
      options = Parse(both);
      if (!options.ok()) return options;
    }
  }
  NameOutputs(*options, journal);
  if (absl::Status status = Complete(*options); !status.ok()) return status;
  return options;
}

}  // namespace roofbench
