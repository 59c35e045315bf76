// SPDX-License-Identifier: Apache-2.0
// Roof fractions of a case that was sampled: the time that a roof allows over the time that was taken.
#pragma once

#include <vector>

#include "lib/device/device.h"
#include "lib/results/outcome.h"

namespace roofbench {

// Of the step against the roof that was probed beside it, one a chunk; chunks without a rate are left out.
std::vector<double> RoofRatios(const RoofGauge& gauge, const Outcome& outcome);

// The median of the same for the operations of each phase; 0: the cost names none, or it is more than a share can be.
std::vector<double> PhaseRoofs(const RoofGauge& gauge, const Outcome& outcome);

// The model's FLOPs at the measured peak of their precision, over the time of each chunk.
std::vector<double> ModelRatios(const RoofGauge& gauge, const Outcome& outcome);

enum class RoofVerdict {
  kPlausible,
  // The case ran above the roof beside it, but not above the highest rate that this run has read: what was probed was
  // disturbed by other programs, or lies in slower memory.
  kDisturbed,
  // Nearly every chunk ran far above the highest rate: the cost or the probe must be wrong.
  kImpossible,
};
RoofVerdict JudgeRoof(const RoofGauge& gauge, const Outcome& outcome);

}  // namespace roofbench
