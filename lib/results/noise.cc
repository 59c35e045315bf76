// SPDX-License-Identifier: Apache-2.0
#include "lib/results/noise.h"

#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// Above these limits, the median is too imprecise: width of its interval, share of the processors that others used, and
// scatter between chunks.
constexpr double kNoisyInterval = 0.05;
constexpr double kNoisyShare = 0.05;
constexpr double kNoisyChunks = 0.10;

}  // namespace

std::vector<std::string> NoiseOf(const Outcome& outcome) {
  std::vector<double> medians;
  for (const timing::Chunk& chunk : outcome.samples.chunks) medians.push_back(chunk.median_seconds);
  std::vector<std::string> reasons;
  if (outcome.summary.ci > kNoisyInterval) reasons.emplace_back("ci");
  if (medians.size() >= 3 && timing::RobustDeviation(medians) > kNoisyChunks * timing::Median(medians)) {
    reasons.emplace_back("drift");
  }
  const MeasuredConditions& conditions = outcome.conditions;
  if (conditions.stolen_share + conditions.others_share > kNoisyShare) {
    reasons.emplace_back(conditions.stolen_share > conditions.others_share ? "stolen" : "others");
  }
  return reasons;
}

bool IsNoisy(const Outcome& outcome) { return !NoiseOf(outcome).empty(); }

}  // namespace roofbench
