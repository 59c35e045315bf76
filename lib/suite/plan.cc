// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/plan.h"

#include <utility>

namespace roofbench {

absl::StatusOr<std::vector<PlannedCase>> MakePlan(const std::vector<Family>& families, const Selection& selection) {
  std::vector<const FamilyGrid*> grids;
  for (const Family& family : families) grids.push_back(&family);
  absl::StatusOr<std::vector<PlannedPoint>> points = PlanPoints(grids, selection);
  if (!points.ok()) return points.status();
  std::vector<PlannedCase> plan;
  for (PlannedPoint& planned : *points) {
    plan.push_back({static_cast<const Family*>(planned.family), std::move(planned.point), std::move(planned.name)});
  }
  return plan;
}

}  // namespace roofbench
