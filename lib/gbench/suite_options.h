// SPDX-License-Identifier: Apache-2.0
// Options of a whole run of the suite: how to measure, and where results go.
#pragma once

#include <string>
#include <vector>

#include "lib/run/run_options.h"

namespace roofbench {

struct SuiteOptions : RunOptions {
  SuiteOptions() { reference = "a100-sxm4-40gb"; }

  std::string program;             // argv[0]
  std::string format = "console";  // of standard output: "console", "json" or "csv"
  std::string out;                 // file for the results; empty: none
  std::string out_format = "json";
  std::string tokens_out;  // file for the text outputs of cases; empty: none
  std::string color = "auto";
  bool counters_tabular = false;  // where `out_format` is "console"
  int repetitions = 1;
  bool resume_doubtful = false;  // with `resume`: cases in doubt are measured again
  std::string pressure;          // a warning of other programs that take most of the processors; empty: none do
  // Flags of Google Benchmark for the library itself, as "--name=value".
  std::vector<std::string> library_flags;
};

}  // namespace roofbench
