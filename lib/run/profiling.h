// SPDX-License-Identifier: Apache-2.0
// Profiles of cases: records further steps of a timed case and writes summaries to a folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/built_case.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Creates the folder if it is missing and checks that files can be written to it. Returns Unavailable with the path,
// the reason and the remedy.
absl::Status PrepareProfileFolder(const std::string& folder);

// Common prefix of a case's files: its name with characters that are unsafe in file names replaced. Distinct cases have
// distinct stems.
std::string ProfileStem(const std::string& case_name);

// Runs the step of a case once unprofiled, then `options.steps` times under a clock of operators, once while oneDNN and
// MKL log their routines, and twice `options.steps` times under the profiler. The second half of the latter is written
// to <stem>.txt, .json, .operators.csv, .kernels.csv, .modules.csv, .routines.csv and .trace.json. `outcome` has the
// samples. Failures of the step or the folder are returned and cost only the profile. Without a folder nothing is
// written: a rank takes the same steps as the one that writes.
absl::Status ProfileCase(const PlannedCase& planned, const BuiltCase& built, const ProfileOptions& options,
                         Device& device, const Outcome& outcome);

}  // namespace roofbench
