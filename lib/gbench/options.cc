// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/options.h"

#include <algorithm>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text.h"
#include "lib/gbench/arguments.h"
#include "lib/gbench/environment.h"
#include "lib/gbench/flag_values.h"
#include "lib/gbench/flags.h"
#include "lib/hardware/datasheet.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/observe/profile/tables.h"

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

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

bool IsLibrarySwitch(const std::string& name) {
  constexpr std::string_view kSwitches[] = {"benchmark_list_tests", "benchmark_enable_random_interleaving",
                                            "benchmark_report_aggregates_only", "benchmark_display_aggregates_only"};
  return std::find(std::begin(kSwitches), std::end(kSwitches), name) != std::end(kSwitches);
}

// The flags of Google Benchmark that we read ourselves. True if `argument` was one of them.
absl::StatusOr<bool> ApplyLibraryFlag(const Argument& argument, Options& options) {
  const std::string& name = argument.name;
  const std::string value = argument.value.value_or("");
  if (name == "benchmark_list_tests" && value == "json") {
    options.list_tests = options.list_json = true;
  } else if (IsLibrarySwitch(name)) {
    const auto is_on = ParseSwitch(name, argument.value.value_or("true"));
    if (!is_on.ok()) return is_on.status();
    if (name == "benchmark_list_tests") {
      options.list_tests = *is_on;
    } else if (name == "benchmark_display_aggregates_only") {
      options.display_aggregates_only = *is_on;  // the library would keep the repetitions from the files as well
    } else {
      options.library_arguments.push_back(StrCat("--", name, *is_on ? "=true" : "=false"));
    }
  } else if (name == "benchmark_filter") {
    options.filter = value;
  } else if (name == "benchmark_out") {
    options.out = value;
  } else if (name == "benchmark_color") {
    const auto color = OneOf(name, value, {"auto", "true", "false", "yes", "no", "1", "0"});
    if (!color.ok()) return color.status();
    options.color = *color;
  } else if (name == "benchmark_context") {
    const auto facts = ParseContext(value);
    if (!facts.ok()) return facts.status();
    options.context.insert(options.context.end(), facts->begin(), facts->end());
  } else if (name == "benchmark_time_unit") {
    const auto unit = OneOf(name, value, {"ns", "us", "ms", "s"});
    if (!unit.ok()) return unit.status();
    options.time_unit = *unit;
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
  if (!absl::StartsWith(text, "--") && text != "-h") {
    return InvalidArgumentError(StrCat("'", text, "': flags begin with two dashes: -", text));
  }
  if (!argument->old_name.empty()) {
    options.notes.push_back(StrCat("--", argument->old_name, " is called --", name, " now"));
  }
  if (name == "help" || name == "version") {
    (name == "help" ? options.help : options.version) = true;
    return absl::OkStatus();
  }
  const auto refused = RefusedLibraryFlags().find(name);
  if (refused != RefusedLibraryFlags().end()) return InvalidArgumentError(StrCat("--", name, ": ", refused->second));
  const FlagRow* const row = FindFlagRow(name);
  if (row == nullptr) {
    const std::string nearest = Nearest(name, KnownFlags());
    return InvalidArgumentError(StrCat("unknown flag --", name,
                                       nearest.empty() ? "" : StrCat("; did you mean --", nearest, "?"),
                                       " (--help lists all)"));
  }
  if (row->question && argument->value == "") {
    return InvalidArgumentError(StrCat("--", name, "=: expected ", View(row->value)));
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
      options.repetitions = static_cast<int>(*count);
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

absl::Status ReadProfileFlags(ProfileOptions& profile) {
  profile.folder = absl::GetFlag(FLAGS_profile);
  const std::string sort = absl::GetFlag(FLAGS_profile_sort);
  if (!sort.empty()) {
    const auto column = OneOf("profile_sort", sort, observe::SortColumns());
    if (!column.ok()) return column.status();
    profile.sort = *column;
  }
  struct Row {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t* to;
  };
  for (const Row& row : {Row{"profile_steps", absl::GetFlag(FLAGS_profile_steps), 1, &profile.steps},
                         Row{"profile_rows", absl::GetFlag(FLAGS_profile_rows), 1, &profile.rows},
                         Row{"profile_depth", absl::GetFlag(FLAGS_profile_depth), 0, &profile.depth},
                         Row{"profile_width", absl::GetFlag(FLAGS_profile_width), 8, &profile.width}}) {
    const auto count = ParseCount(row.name, StrCat(row.value), row.least, 1'000'000);
    if (!count.ok()) return count.status();
    *row.to = *count;
  }
  return absl::OkStatus();
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
  const auto allocator = OneOf("allocator", absl::GetFlag(FLAGS_allocator), {"tuned", "system"});
  if (!allocator.ok()) return allocator.status();
  options.allocator = *allocator == "tuned" ? hardware::Allocator::kTuned : hardware::Allocator::kSystem;
  const auto threads = ParseCount("threads", StrCat(absl::GetFlag(FLAGS_threads)), 0, 4096);
  if (!threads.ok()) return threads.status();
  options.threads = static_cast<int>(*threads);
  options.oversubscribe = absl::GetFlag(FLAGS_oversubscribe);
  if (options.threads > kernels::Processors() && !options.oversubscribe) {
    return InvalidArgumentError(StrCat("--threads=", options.threads, " is above the ", kernels::Processors(),
                                       " processor(s) that this process may run on, where threads that wait for each "
                                       "other hardly get on; --oversubscribe takes them all the same"));
  }
  options.seed = absl::GetFlag(FLAGS_seed);
  options.journal = absl::GetFlag(FLAGS_journal);
  options.resume = absl::GetFlag(FLAGS_resume);
  // A flag of a family: not every program has it.
  if (const absl::CommandLineFlag* flag = absl::FindCommandLineFlag("tokens_out"); flag != nullptr) {
    options.tokens_out = flag->CurrentValue();
  }
  options.case_timeout = absl::GetFlag(FLAGS_case_timeout);
  options.supervise = absl::GetFlag(FLAGS_supervise);
  if (options.resume && options.journal.empty()) {
    return InvalidArgumentError("--resume needs --journal=FILE, where the finished cases are kept");
  }
  if (options.case_timeout > 0 && !options.supervise) {
    return InvalidArgumentError("--case_timeout needs --supervise=true: a process cannot end its own step");
  }
  options.fresh_process = absl::GetFlag(FLAGS_fresh_process);
  if (options.fresh_process && !options.supervise) {
    return InvalidArgumentError("--fresh_process needs --supervise=true: somebody has to start the processes");
  }
  options.compile.coordinate_descent_tuning = absl::GetFlag(FLAGS_coordinate_descent_tuning);
  const std::string describe = absl::GetFlag(FLAGS_describe);
  options.describe = !describe.empty();
  if (options.describe && describe != "json") {
    return InvalidArgumentError(StrCat("--describe=", describe, ": expected json"));
  }
  options.list_axes = absl::GetFlag(FLAGS_list_axes);
  options.explain_counters = absl::GetFlag(FLAGS_explain_counters);
  options.unverified = absl::GetFlag(FLAGS_unverified);
  options.nvtx = absl::GetFlag(FLAGS_nvtx);
  options.wait_quiet = absl::GetFlag(FLAGS_wait_quiet);
  options.doctor = absl::GetFlag(FLAGS_doctor);
  options.memory_snapshot = absl::GetFlag(FLAGS_memory_snapshot);
  if (absl::Status status = ReadProfileFlags(options.profile); !status.ok()) return status;

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
                                    {"case_timeout", absl::GetFlag(FLAGS_case_timeout)},
                                    {"wait_quiet", absl::GetFlag(FLAGS_wait_quiet)}}) {
    if (const auto seconds = ParseSeconds(flag, StrCat(value)); !seconds.ok()) return seconds.status();
  }
  options.max_step_time = absl::GetFlag(FLAGS_max_step_time);
  sampling.roof_share = absl::GetFlag(FLAGS_roof_share);
  if (!(sampling.roof_share >= 0) || sampling.roof_share > 0.9) {
    return InvalidArgumentError(StrCat("--roof_share=", sampling.roof_share, ": expected a fraction from 0 to 0.9"));
  }
  const std::string roofs = absl::GetFlag(FLAGS_roofs);
  if (roofs != "reuse" && roofs != "measure" && roofs != "off") {
    return InvalidArgumentError(StrCat("--roofs=", roofs, ": expected reuse, measure or off"));
  }
  options.roofs = roofs == "measure" ? RoofSource::kMeasure : RoofSource::kReuse;
  if (roofs == "off") sampling.roof_share = 0;
  options.injected_delay = absl::GetFlag(FLAGS_inject_delay);
  if (!(options.injected_delay >= 0) || options.injected_delay > 10) {
    return InvalidArgumentError(
        StrCat("--inject_delay=", options.injected_delay, ": expected a fraction from 0 to 10"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  options.library_arguments = {arguments.empty() ? "roofbench" : arguments.front()};
  std::vector<std::string> all = TakeEnvironmentArguments();  // first, so that the command line wins
  if (!arguments.empty()) all.insert(all.end(), arguments.begin() + 1, arguments.end());
  // --max_time and --benchmark_min_time are one budget: whichever comes last counts.
  for (const std::string& text : all) {
    if (absl::Status status = ApplyArgument(text, options); !status.ok()) return status;
    const auto argument = SplitArgument(text);
    if (argument && argument->name == "max_time") options.sampling.max_time = absl::GetFlag(FLAGS_max_time);
  }
  if (absl::Status status = ReadFlags(options); !status.ok()) {
    // A flag that was given by its old name is refused by today's.
    if (options.notes.empty()) return status;
    return InvalidArgumentError(StrCat(std::string(status.message()), " (", absl::StrJoin(options.notes, "; "), ")"));
  }
  options.measuring_flags = MeasuringFlags(all);
  options.command_line = CommandLine(arguments);
  // Everything but the samples themselves: building, warm-up, roof probes.
  options.sampling.max_wall = std::max(2.0, 4 * options.sampling.max_time);
  return options;
}

}  // namespace roofbench
