// SPDX-License-Identifier: Apache-2.0
// Roof fractions of a sampled case: the time at the roof over the measured time.
#pragma once

#include <vector>

#include "lib/device/device.h"
#include "lib/results/outcome.h"

namespace roofbench {

// Time of the step at the roof probed with a chunk, over its time in that chunk; chunks without a rate are left out.
std::vector<double> RoofRatios(const RoofGauge& gauge, const Outcome& outcome);

// The median of these ratios for the operations of each phase; 0: the cost names none, or the ratio is too large to be
// a share.
std::vector<double> PhaseRoofs(const RoofGauge& gauge, const Outcome& outcome);

// Time of the model's FLOPs at the measured peak of their precision, over the time of each chunk.
std::vector<double> ModelRatios(const RoofGauge& gauge, const Outcome& outcome);

enum class RoofVerdict {
  kPlausible,
  // The case ran above the roof probed with it, but not above the highest rate read in this run: other programs
  // disturbed the probe, or its memory is slower.
  kDisturbed,
  // Nearly every chunk ran far above the highest rate, so the cost or the probe must be wrong.
  kImpossible,
};
RoofVerdict JudgeRoof(const RoofGauge& gauge, const Outcome& outcome);

}  // namespace roofbench
