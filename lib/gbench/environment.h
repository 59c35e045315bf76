// SPDX-License-Identifier: Apache-2.0
// Flags from environment variables such as BENCHMARK_MIN_TIME.
#pragma once

#include <string>
#include <vector>

namespace roofbench {

// The BENCHMARK_* variables of these flags as arguments. All such variables are removed from the environment at program
// start, because Google Benchmark would read them while it is loaded, and print those that it cannot parse.
std::vector<std::string> TakeEnvironmentArguments(const std::vector<std::string>& flags);

}  // namespace roofbench
