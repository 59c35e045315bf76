// SPDX-License-Identifier: Apache-2.0
// The command line: the table of flags, and the validated options.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/gbench/flags.h"
#include "lib/run/run_options.h"

namespace roofbench {

struct Options : RunOptions {
  Options() { reference = "a100-sxm4-40gb"; }

  std::string program;     // argv[0]
  std::string out;         // --benchmark_out
  std::string tokens_out;  // file for the text outputs of cases
  std::string out_format = "json";
  std::string format = "console";
  std::string color = "auto";
  int repetitions = 1;
  bool dry_run = false;
  int64_t exact_samples = 0;  // from --benchmark_min_time=Nx; 0: until the budget is spent
  bool oversubscribe = false;
  bool random_interleaving = false;
  bool aggregates_only = false;
  bool display_aggregates_only = false;  // on standard output; files also have the repetitions
  bool list_tests = false;
  bool list_json = false;  // with their axes, as JSON
  bool list_axes = false;
  bool explain_counters = false;
  bool nvtx = false;  // mark ranges for a profiler
  std::string describe;
  bool help = false;
  bool help_all = false;
  bool version = false;
  bool doctor = false;
  // One unit for all times in JSON and CSV, so that results are comparable; fine enough for compare.py, which prints
  // integers.
  std::string time_unit = "us";
  RunFacts context;  // --benchmark_context
  GivenFlags given;
};

// The table of flags, with targets in `options`. Registered flags of families have separate targets.
std::vector<FlagGroup> FlagTable(Options& options);

// Parses the command line and the BENCHMARK_* environment variables. InvalidArgument names the flag, the reason and the
// valid values.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// Parses "KEY=VALUE,KEY=VALUE", the value of --benchmark_context. InvalidArgument if it is not such a list, or not
// valid text for a result.
absl::StatusOr<RunFacts> ParseContext(const std::string& text);

// Whether Google Benchmark, or our code outside the facts of a run, writes a fact of that name to results.
bool IsWrittenByLibrary(const std::string& key);

// Checks that the keys are unique and differ from those of Google Benchmark, of `facts` and of the measured roofs,
// which are known later. InvalidArgument names the first conflict: readers reject a result with a duplicate key.
absl::Status CheckContextKeys(const RunFacts& given, const RunFacts& facts);

// The text of --help: the common flags or all, by group; examples; exit status. At most 80 columns wide.
std::string HelpText(bool all);

}  // namespace roofbench
