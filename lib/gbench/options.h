// SPDX-License-Identifier: Apache-2.0
// The command line: what it says, checked, and what of it belongs to Google Benchmark.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/gbench/context.h"
#include "lib/run/run_options.h"

namespace roofbench {

struct Options : RunOptions {
  std::string out;         // --benchmark_out
  std::string tokens_out;  // what cases leave behind for people to read, a line a case
  std::string out_format = "json";
  std::string format = "console";
  std::string color = "auto";
  int repetitions = 1;
  bool oversubscribe = false;  // more threads than processors
  bool list_tests = false;
  bool list_json = false;  // with their axes, for programs to read
  bool list_axes = false;
  bool explain_counters = false;
  bool nvtx = false;  // mark ranges for a profiler
  bool describe = false;
  bool help = false;
  bool version = false;
  bool doctor = false;
  bool display_aggregates_only = false;  // on standard output; files have the repetitions too
  // Of all times in JSON and CSV: one, so that results compare; fine enough for compare.py, which shows whole ones.
  std::string time_unit = "us";
  ContextFacts context;  // --benchmark_context

  // What people should know of the flags that they gave: old names.
  std::vector<std::string> notes;

  // What is left for benchmark::Initialize, argv[0] first.
  std::vector<std::string> library_arguments;
};

// Reads the command line and the BENCHMARK_* variables of the environment. InvalidArgument names the flag, the reason
// and what would be valid.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

}  // namespace roofbench
