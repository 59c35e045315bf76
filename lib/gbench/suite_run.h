// SPDX-License-Identifier: Apache-2.0
// The part of a run that one process executes: measures the remaining cases of the plan and writes every output.
#pragma once

#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/gbench/options.h"
#include "lib/run/shared_state.h"
#include "lib/suite/plan.h"

namespace roofbench {

// `journal` stores finished cases, so that a later process can continue after them. Returns the exit status.
int RunSuite(const Options& options, const std::vector<PlannedCase>& plan, const std::string& journal,
             SharedState& state, Device& device);

}  // namespace roofbench
