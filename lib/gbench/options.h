// SPDX-License-Identifier: Apache-2.0
// The command line: the table of flags, and the validated options.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/gbench/context.h"
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
  ContextFacts context;  // --benchmark_context
  GivenFlags given;
};

// The table of flags, with targets in `options`. Registered flags of families have separate targets.
std::vector<FlagGroup> FlagTable(Options& options);

// Parses the command line and the BENCHMARK_* environment variables. InvalidArgument names the flag, the reason and the
// valid values.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// The text of --help: the common flags or all, by group; examples; exit status. At most 80 columns wide.
std::string HelpText(bool all);

}  // namespace roofbench
