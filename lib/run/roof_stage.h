// SPDX-License-Identifier: Apache-2.0
// The first stage of a run: obtains the roofs that its cases need, measured now or at an earlier start on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Origin of a run's roofs, for the context of its results.
struct RoofOrigin {
  std::string text = "unknown";           // "measured", "measured 12 min before, …" or "off"
  std::optional<double> other_load = {};  // share of the processors that others used; nullopt: unknown
  std::optional<double> load_now = {};    // the same of what was measured now; nullopt: nothing was
  bool is_reused = false;                 // all of them or some
};

// Obtains the roofs of a plan according to options.roofs. With kReuse, measured roofs are kept for the next start,
// unless other programs used the processors during the measurement.
RoofOrigin PrepareRoofs(const RunOptions& options, const std::vector<PlannedCase>& plan, Device& device);
// The same of what a question needs that runs no cases.
RoofOrigin PrepareRoofs(const RunOptions& options, const hardware::RoofNeeds& needs, Device& device);

}  // namespace roofbench
