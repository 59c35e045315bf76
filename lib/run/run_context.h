// SPDX-License-Identifier: Apache-2.0
// What a result has to say about the machine, the build and the settings it came from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/device/device.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Key and value of every fact, for Google Benchmark's context, the journal, and the head of the console table.
std::vector<std::pair<std::string, std::string>> RunContext(const RunOptions& options, const Device& device);

// The lines above the console table: the device, its measured roofs, the build.
std::string DescribeRun(const RunOptions& options, const Device& device);

}  // namespace roofbench
