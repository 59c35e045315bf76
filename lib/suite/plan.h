// SPDX-License-Identifier: Apache-2.0
// The cases of a run: planned points (lib/cases/point_plan.h) of families that can build them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/cases/point_plan.h"
#include "lib/suite/family.h"

namespace roofbench {

using PlannedCase = Planned<Family>;

// As PlanPoints.
absl::StatusOr<std::vector<PlannedCase>> MakePlan(const std::vector<Family>& families, const Selection& selection);

}  // namespace roofbench
