// SPDX-License-Identifier: Apache-2.0
// Samples a built case, interleaved with probes of the roof, and watches the machine.
#pragma once

#include <functional>

#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/built_case.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Fills in the fields derived from samples: times, phases, conditions, noise, ratios to the roof. `outcome` must
// contain its cost. A case slowed down by heat is sampled again after a pause; one with an implausible share of
// its roof, at once. `interrupted` is polled between samples. The ranks of `team` sample it in step, without probes of
// a roof. Returns DataLoss if a case ran so far above its roof that its cost or the probe must be wrong.
absl::Status SampleCase(const BuiltCase& built, CacheState cache, const RunOptions& options, Device& device,
                        const std::function<bool()>& interrupted, Outcome& outcome, RankTeam* team = nullptr);

// Times a warm step with a few samples, for decisions rather than results.
timing::Samples QuickSamples(timing::Clock& clock, const timing::Step& step, std::size_t phases);

}  // namespace roofbench
