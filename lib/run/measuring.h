// SPDX-License-Identifier: Apache-2.0
// Samples a built case, with the roof probed in between and the machine watched.
#pragma once

#include <functional>

#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/built_case.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Fills in what the samples tell: times, phases, conditions, ratios to the roof. `outcome` knows its cost. A case that
// heat slowed down is sampled again after a pause. `interrupted` is polled between samples. DataLoss where a case ran
// so far above its roof that its cost or the probe must be wrong.
absl::Status SampleCase(const BuiltCase& built, CacheState cache, const RunOptions& options, Device& device,
                        const std::function<bool()>& interrupted, Outcome& outcome);

// A warm step from a few samples, for decisions and not for results.
timing::Summary QuickSamples(Device& device, const timing::Step& step, std::size_t phases);

}  // namespace roofbench
