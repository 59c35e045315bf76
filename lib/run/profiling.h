// SPDX-License-Identifier: Apache-2.0
// Profiles of cases: more steps of one that was timed, recorded, and what they add up to in a folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/built_case.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Makes the folder if it is not there, and finds out whether files can be written to it. Unavailable with the path, the
// reason and the way out.
absl::Status PrepareProfileFolder(const std::string& folder);

// What the files of a case begin with: its name, with what no file's name should hold replaced, each case's
// differently.
std::string ProfileStem(const std::string& case_name);

// Runs the step of a case once as it is, then `options.steps` times under a clock of operators, once while oneDNN and
// MKL tell of their routines, and twice `options.steps` times under the profiler, and writes of the second half of
// those <stem>.txt, .json, .operators.csv, .kernels.csv, .modules.csv, .routines.csv and .trace.json. `outcome` has the
// samples. What goes wrong, in the step or the folder, is told and costs no more than the profile.
absl::Status ProfileCase(const PlannedCase& planned, const BuiltCase& built, const ProfileOptions& options,
                         Device& device, const Outcome& outcome);

}  // namespace roofbench
