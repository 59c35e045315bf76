// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/chunk_plan.h"

#include <algorithm>
#include <cmath>

namespace roofbench::timing {
namespace {

constexpr double kSampleMargin = 1.1;  // samples with scatter still reach their least duration
constexpr int64_t kBlindGrowth = 16;   // of the steps in a sample that is too short for the clock
constexpr int64_t kChunkGrowth = 8;

// As many as fit, at least 1 and at most `most`; compared as doubles, because the quotient may exceed an integer.
int64_t FloorWithin(double quotient, int64_t most) {
  if (quotient >= static_cast<double>(most)) return std::max<int64_t>(most, 1);
  return quotient >= 1 ? static_cast<int64_t>(quotient) : 1;
}

int64_t StepsPerSample(int64_t last, double step_seconds, const ChunkLimits& limits) {
  const int64_t most = limits.marks_per_step == 0
                           ? limits.max_steps
                           : std::min(limits.max_steps, (limits.max_marks - 1) / limits.marks_per_step);
  const double last_seconds = static_cast<double>(last) * step_seconds;
  if (last_seconds >= limits.sample_seconds) return FloorWithin(static_cast<double>(last), most);
  if (step_seconds <= 0) return FloorWithin(static_cast<double>(last * kBlindGrowth), most);
  return FloorWithin(std::ceil(kSampleMargin * limits.sample_seconds / step_seconds), most);
}

}  // namespace

ChunkPlan NextPlan(const ChunkPlan& last, double step_seconds, const ChunkLimits& limits) {
  const int64_t steps = StepsPerSample(last.steps_per_sample, step_seconds, limits);
  const int64_t marks_per_sample = limits.marks_per_step == 0 ? 1 : limits.marks_per_step * steps;
  const int64_t most =
      std::min({limits.max_samples, (limits.max_marks - 1) / marks_per_sample, last.samples * kChunkGrowth});
  const double sample_seconds = static_cast<double>(steps) * step_seconds;
  return {.steps_per_sample = steps,
          .samples = sample_seconds > 0 ? FloorWithin(limits.chunk_seconds / sample_seconds, most) : 1};
}

}  // namespace roofbench::timing
