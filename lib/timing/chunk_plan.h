// SPDX-License-Identifier: Apache-2.0
// The number of steps per sample, and of samples per chunk.
#pragma once

#include <cstdint>

namespace roofbench::timing {

struct ChunkPlan {
  int64_t steps_per_sample = 1;
  int64_t samples = 1;

  bool operator==(const ChunkPlan&) const = default;
};

struct ChunkLimits {
  double sample_seconds = 0;   // a sample lasts at least this, if it may have so many steps
  int64_t max_steps = 1;       // in a sample
  double chunk_seconds = 0;    // a chunk lasts at most about this, but holds at least one sample
  int64_t max_samples = 1;     // in the chunk
  int64_t marks_per_step = 0;  // 0: one mark per sample
  int64_t max_marks = 2;       // in the chunk
};

// The chunk to run after `last`, in which a step took `step_seconds`. The steps of a sample never decrease, and the
// samples of a chunk grow gradually, because a short chunk predicts the next one poorly.
ChunkPlan NextPlan(const ChunkPlan& last, double step_seconds, const ChunkLimits& limits);

}  // namespace roofbench::timing
