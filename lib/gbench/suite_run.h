// SPDX-License-Identifier: Apache-2.0
// What one process does of a run: measures what is left of the plan, writes every output.
#pragma once

#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/gbench/options.h"
#include "lib/run/shared_state.h"
#include "lib/suite/plan.h"

namespace roofbench {

// `journal` is where finished cases are kept: a process that follows another goes on after them. Returns the exit
// status.
int RunSuite(const Options& options, const std::vector<PlannedCase>& plan, const std::string& journal,
             SharedState& state, Device& device);

}  // namespace roofbench
