// SPDX-License-Identifier: Apache-2.0
// How a run measures, whoever asked for it: gbench reads these from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/device/conditions/energy_clock.h"
#include "lib/hardware/allocator.h"
#include "lib/suite/selection.h"
#include "lib/suite/steps/compile_options.h"
#include "lib/timing/sampler.h"

namespace roofbench {

// What is profiled after a case was timed, and how it is told.
struct ProfileOptions {
  std::string folder;  // empty: nothing
  int64_t steps = 3;
  int64_t depth = 0;  // of operators and parts of the model in the tables; 0: all
  std::string sort;   // observe::SortColumns(); empty: self time
  int64_t rows = 50;
  int64_t width = 60;
};

// Where a run takes its roofs from. Nothing is measured, and nothing probed, where sampling.roof_share is 0.
enum class RoofSource {
  kReuse,    // those that a start within the last hour kept, and measures what is missing
  kMeasure,  // all are measured
  kOff,      // there are none
};

struct RunOptions : Selection {
  bool suite_given = false;
  std::string device = "auto";
  std::string reference;
  int threads = 0;  // 0: LibTorch's choice
  uint64_t seed = 0;
  hardware::Allocator allocator = hardware::Allocator::kTuned;
  bool check = true;
  timing::SampleOptions sampling;
  RoofSource roofs = RoofSource::kReuse;
  double injected_delay = 0;  // extra work a step, as a share of the step
  double max_step_time = 0;   // seconds; 0: the suite's own limit
  CompileOptions compile;
  bool unverified = false;  // also run what no GPU has run yet
  double wait_quiet = 0;    // seconds to wait for a quiet machine before anything is measured; 0: none

  // Of a program that links this library; empty: not known, or that of the library.
  std::string program_revision;
  JoulesRead joules = {};    // what the machine counts of energy; empty: nothing
  std::string command_line;  // as a shell would take it

  bool supervise = true;       // in a child process, whose end is not the end of the run
  bool fresh_process = false;  // in another one for each repetition of each case
  ProfileOptions profile;
  std::string memory_snapshot;  // folder for the memory of each case, `profile.steps` steps of it; empty: none

  std::string journal;
  bool resume = false;
  double case_timeout = 0;  // seconds; 0: none

  // What the program says of itself in every result, as JSON (lib/results/contract.h); empty: nothing.
  std::string contract;

  // What decides what is measured and how, from the command line and the environment: two processes with the same ones
  // are parts of one run.
  std::vector<std::string> measuring_flags;
};

}  // namespace roofbench
