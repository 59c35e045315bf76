// SPDX-License-Identifier: Apache-2.0
// Reasons why a figure is less precise than its digits.
#pragma once

#include <string>
#include <vector>

#include "lib/results/outcome.h"

namespace roofbench {

// Disturbances of the case: "ci" (wide interval), "drift" (chunks differ), "others" (other programs used the
// processors) or "stolen" (the hypervisor did).
std::vector<std::string> NoiseOf(const Outcome& outcome);

// Whether there was any (the counter `noisy`).
bool IsNoisy(const Outcome& outcome);

}  // namespace roofbench
