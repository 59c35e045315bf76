// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/sharded_memory.h"

#include <algorithm>

namespace roofbench::workload {

double ShardedPeak(const std::vector<StepUnit>& units, double ranks, double loss) {
  // One rank's units stay, and nothing is sent.
  const bool is_shared = ranks > 1;
  double kept = 0, stays = 0, gradients = 0;
  for (const StepUnit& unit : units) {
    kept += unit.kept;
    if (!is_shared) stays += unit.parameters;
  }
  const auto gathered = [&](const StepUnit& unit) { return is_shared ? unit.parameters : 0; };
  double peak = kept + loss + gathered(units.back());
  for (std::size_t i = units.size(); i-- > 0;) {
    const StepUnit& unit = units[i];
    kept -= unit.kept;
    // Its gradients one after the other, and in one array.
    const double scatters = unit.passes + 2 * unit.parameters;
    const double next = i > 0 ? gathered(units[i - 1]) : 0;
    peak = std::max(peak, kept + gradients + next + std::max(gathered(unit) + unit.computes, scatters));
    gradients += unit.parameters / ranks;
  }
  return stays + peak;
}

}  // namespace roofbench::workload
