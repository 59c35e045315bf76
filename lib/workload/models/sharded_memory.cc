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

std::vector<std::size_t> BucketsOf(const std::vector<double>& gradients, double limit) {
  std::vector<std::size_t> buckets;
  double bytes = 0;
  for (const double more : gradients) {
    const bool is_full = !buckets.empty() && bytes + more > limit;
    buckets.push_back(buckets.empty() ? 0 : buckets.back() + (is_full ? 1 : 0));
    bytes = is_full ? more : bytes + more;
  }
  return buckets;
}

double BucketedPeak(const std::vector<StepUnit>& units, double limit) {
  std::vector<double> gradients, held;  // what else is there when a gradient is
  double kept = 0;
  for (const StepUnit& unit : units) {
    double next = 0;  // gradients that come later
    for (std::size_t i = 0; i < unit.gradients.size(); ++i) {
      // The memory that a unit keeps shrinks evenly with its gradients.
      const double left = unit.kept * static_cast<double>(i) / static_cast<double>(unit.gradients.size());
      gradients.push_back(unit.gradients[i]);
      held.push_back(kept + left + unit.passes + (unit.at_once ? next : 0));
      next += unit.gradients[i];
    }
    kept += unit.kept;
  }
  std::ranges::reverse(gradients);
  std::ranges::reverse(held);
  const std::vector<std::size_t> buckets = BucketsOf(gradients, limit);
  double peak = 0, all = 0, joined = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    all += gradients[i];
    joined += gradients[i];
    ++count;
    if (i + 1 < gradients.size() && buckets[i + 1] == buckets[i]) continue;
    // That of a single parameter is not copied.
    peak = std::max(peak, held[i] + all + (count > 1 ? joined : 0));
    joined = 0;
    count = 0;
  }
  return peak;
}

double ScatteredPeak(const std::vector<StepUnit>& units, double limit, double ranks) {
  std::vector<double> gradients;
  for (const StepUnit& unit : units) gradients.insert(gradients.end(), unit.gradients.begin(), unit.gradients.end());
  std::ranges::reverse(gradients);
  const std::vector<std::size_t> buckets = BucketsOf(gradients, limit);
  std::vector<double> bytes(buckets.back() + 1);
  double all = 0, peak = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    bytes[buckets[i]] += gradients[i];
    all += gradients[i];
  }
  for (const double bucket : bytes) {
    peak = std::max(peak, all + bucket / ranks);
    all -= bucket - bucket / ranks;
  }
  return peak;
}

}  // namespace roofbench::workload
