// SPDX-License-Identifier: Apache-2.0
// Measurement options of a run; gbench reads these from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/conditions/energy_clock.h"
#include "lib/hardware/process_memory.h"
#include "lib/results/journal.h"
#include "lib/suite/inputs.h"
#include "lib/suite/plan.h"
#include "lib/timing/sampler.h"

namespace roofbench {

// Settings for profiling a case after it was timed, and for the report.
struct ProfileOptions {
  std::string folder;  // empty: no profile
  int64_t steps = 3;
  int64_t depth = 0;  // of operators and model parts in the tables; 0: all
  std::string sort;   // observe::SortColumns(); empty: self time
  int64_t rows = 50;
  int64_t width = 60;
};

// Source of a run's roofs. If sampling.roof_share is 0, nothing is measured or probed.
enum class RoofSource {
  kReuse,    // reuses roofs kept within the last hour, and measures missing ones
  kMeasure,  // measures all roofs
  kOff,      // no roofs
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
  double min_warmup_time = 0;  // seconds of steps before the warm-up that `sampling` describes
  RoofSource roofs = RoofSource::kReuse;
  double injected_delay = 0;  // extra work per step, as a share of the step
  double max_step_time = 0;   // seconds; 0: the suite's own limit
  CompileOptions compile;
  bool unverified = false;       // also run kernels that no GPU has run yet
  bool slow_precisions = false;  // also run precisions that the processor has no arithmetic for
  double wait_quiet = 0;         // seconds to wait for a quiet machine before anything is measured; 0: none

  // Revision of a program that links this library; empty: not known, or that of the library.
  std::string program_revision;
  JoulesRead joules = {};    // energy counters of the machine; empty: none
  std::string command_line;  // quoted for a shell
  // The command line's, without the program and what holds for one process only: a journal keeps them for --resume.
  std::vector<std::string> arguments;

  bool supervise = true;       // in a child process, whose end does not end the run
  bool fresh_process = false;  // one child process per repetition of each case
  ProfileOptions profile;
  std::string memory_snapshot;  // folder for memory histories of `profile.steps` steps per case; empty: none

  std::string journal;
  bool resume = false;
  double case_timeout = 0;   // seconds; 0: none
  double rank_timeout = 60;  // seconds that a rank waits for another one

  // The program's contract, in every journal, as JSON (ContractOf); empty: none.
  std::string contract;
  RunFacts context;  // facts that the user adds to those of the run

  // Flags and environment variables that decide what is measured and how: two processes with equal ones are parts of
  // one run.
  std::vector<std::string> measuring_flags;
};

}  // namespace roofbench
