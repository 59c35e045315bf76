// SPDX-License-Identifier: Apache-2.0
// The command line: the table of flags, and the validated options.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/cli/flags.h"
#include "lib/gbench/suite_options.h"

namespace roofbench {

struct Options : SuiteOptions {
  bool dry_run = false;
  int64_t exact_samples = 0;  // from --benchmark_min_time=Nx; 0: until the budget is spent
  bool oversubscribe = false;
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
  std::string results;     // folder of the runs that the program names; empty: `out` and `journal` are as given
  std::string written_to;  // file for the list of written files; empty: standard output, of runs in `results`
  GivenFlags given;
  bool says_what = false;  // a flag of the command line itself decides what is measured or how
};

// The table of flags, with targets in `options`. Registered flags of families have separate targets.
std::vector<FlagGroup> FlagTable(Options& options);

// Removes the BENCHMARK_* variables from the environment, and keeps them for ParseOptions: Google Benchmark would read
// them while it is loaded. For .preinit_array.
void TakeVariables(int argc, char** argv, char** environment);

// Parses the command line and the BENCHMARK_* environment variables. --resume without flags that decide what is
// measured and how takes those of the journal's run. InvalidArgument names the flag, the reason and the valid values.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// The text of --help: the common flags or all, by group; examples; exit status. At most 80 columns wide.
std::string HelpText(bool all);

}  // namespace roofbench
