// SPDX-License-Identifier: Apache-2.0
// Facts about the machine, the build and the settings that accompany a result.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/results/journal.h"
#include "lib/run/roof_stage.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Key and value of each fact, for Google Benchmark's context, the journal, and the head of the console table.
RunFacts RunContext(const RunOptions& options, const Device& device, const RoofOrigin& roofs = {});

// Shared by the processes of one run.
absl::StatusOr<RunIdentity> IdentityOf(const RunOptions& options, const Device& device);

// "roofbench 0.2.0 (1234abcd), LibTorch 2.11.0"; a program that links this library puts its own name first.
std::string VersionLine(const RunOptions& options);

// The lines above the console table, at most `width` columns wide: the device, its measured roofs, the build. `roofs`
// gives the origin of the roofs, as in the context.
std::string DescribeRun(const RunOptions& options, const Device& device, const std::string& roofs, std::size_t width);

}  // namespace roofbench
