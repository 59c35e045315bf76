// SPDX-License-Identifier: Apache-2.0
// What the environment says in place of flags: BENCHMARK_MIN_TIME and its kin.
#pragma once

#include <string>
#include <vector>

namespace roofbench {

// As flags, and no longer in the environment: Google Benchmark would read the variables for itself as it is loaded, and
// print what it cannot read as it is. So they are taken away before that.
std::vector<std::string> TakeEnvironmentArguments();

}  // namespace roofbench
