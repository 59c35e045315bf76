// The command line: what it says, checked, and what of it belongs to Google Benchmark.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/harness/family.h"
#include "lib/timing/sampler.h"

namespace roofbench {

// One --axis=[family.]name=v1,v2,…
struct AxisOverride {
  std::string family = {};  // empty: every family that has the axis
  std::string axis;
  std::vector<std::string> values;
};

struct Options {
  std::string device = "auto";
  std::vector<AxisOverride> axes;
  bool suite_given = false;
  Suite suite = Suite::kQuick;
  std::string filter;  // --benchmark_filter; empty: everything
  std::string reference;
  int threads = 0;  // 0: LibTorch's choice
  uint64_t seed = 0;
  bool check = true;
  timing::SampleOptions sampling;
  double plant_slowdown = 0;  // extra work a step, as a share of the step
  double max_step_time = 0;   // seconds; 0: the suite's own limit

  std::string out;  // --benchmark_out
  std::string out_format = "json";
  std::string format = "console";
  std::string color = "auto";
  std::string journal;
  bool resume = false;
  double case_timeout = 0;  // seconds; 0: none
  bool list_tests = false;
  bool list_axes = false;
  bool explain_counters = false;
  bool nvtx = false;        // mark ranges for a profiler
  bool unverified = false;  // also run what no GPU has run yet
  bool help = false;

  // What decides what is measured and how, from the command line and the environment: two processes with the same ones
  // are parts of one run.
  std::vector<std::string> measuring_flags;
  // What is left for benchmark::Initialize, argv[0] first.
  std::vector<std::string> library_arguments;
};

// Reads the command line and the BENCHMARK_* variables of the environment. InvalidArgument names the flag, the reason
// and what would be valid.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// The text of --help: flags by group, then examples.
std::string HelpText();

// Takes BENCHMARK_MIN_TIME and its kin out of the environment, where Google Benchmark would read them for itself.
void ClearLibraryEnvironment();

std::string_view Name(Suite suite);  // "quick", "standard", "full"

}  // namespace roofbench
