// SPDX-License-Identifier: Apache-2.0
// Derived from a case's samples: times, noise, and shares of the roof.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "lib/hardware/roofs/roof_gauge.h"
#include "lib/results/outcome.h"

namespace roofbench {

// Fills in the summary, the noise, the ratios to the roof, and whether that was disturbed. `outcome` must contain its
// cost, model, phases, samples and conditions. Where case and probes run on the processors (`on_processors`), other
// programs that take most of them disturb the ratios. Returns DataLoss if a case ran so far above its roof, which is
// probed once more then, that its cost or the probe must be wrong, or that it did not do its work.
absl::Status Evaluate(const hardware::RoofGauge& gauge, hardware::CacheState cache, bool on_processors,
                      Outcome& outcome);

// Whether the share of the roof is missing, or higher than the scatter of its median explains, although hardly anything
// else ran on this machine.
bool NeedsRemeasurement(const Outcome& outcome);

// Whether its time or its share of a roof says little: it was noisy, its roof was disturbed, or heat slowed the device
// down. The reports judge by the same (tools/roofreport/io/reliability.py), and by the number of samples.
bool IsInDoubt(const Outcome& outcome);
// Whether its samples bound no median at 95 %, as those of the other repetitions together may: a longer sampling gives
// more, and the same once more does not.
bool HasFewSamples(const Outcome& outcome);

// Whether other programs took most of the processors meanwhile: nothing else about it is worth a word.
bool CannotBeJudged(const Outcome& outcome);

// Time of the model's FLOPs at the measured peak of their precision, over the time of each chunk.
std::vector<double> ModelRatios(const hardware::RoofGauge& gauge, const Outcome& outcome);

}  // namespace roofbench
