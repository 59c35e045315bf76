// SPDX-License-Identifier: Apache-2.0
// The part of a run that one process executes: measures the remaining cases of the plan and writes every output.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/gbench/suite_options.h"
#include "lib/run/rank_team.h"
#include "lib/run/supervisor.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Exit statuses of the program.
inline constexpr int kExitFailed = 1;    // a case or an output failed
inline constexpr int kExitRefused = 2;   // refused before anything ran
inline constexpr int kExitSignal = 128;  // plus the signal's number

// Reports why the command line is refused; returns kExitRefused.
int Refuse(const absl::Status& status);

// `journal` stores finished cases, so that a later process can continue after them. `teams` run cases of several ranks.
// Returns the exit status.
int RunSuite(const SuiteOptions& options, const std::vector<PlannedCase>& plan, const std::string& journal,
             SharedState& state, Device& device, RankTeams* teams = nullptr);

}  // namespace roofbench
