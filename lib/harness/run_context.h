// What a result has to say about the machine, the build and the settings it came from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/harness/device.h"
#include "lib/harness/options.h"

namespace roofbench {

// Key and value of every fact, for Google Benchmark's context, the journal, and the head of the console table.
std::vector<std::pair<std::string, std::string>> RunContext(const Options& options, const Device& device);

// The lines above the console table: the device, its measured roofs, the build.
std::string DescribeRun(const Options& options, const Device& device);

}  // namespace roofbench
