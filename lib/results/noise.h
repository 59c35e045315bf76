// SPDX-License-Identifier: Apache-2.0
// Why a figure is worth less than its digits say.
#pragma once

#include <string>
#include <vector>

#include "lib/results/outcome.h"

namespace roofbench {

// What disturbed the case: "ci" (its interval is wide), "drift" (its chunks are apart), "others" (other programs used
// the processors) or "stolen" (the hypervisor did).
std::vector<std::string> NoiseOf(const Outcome& outcome);

// Whether something did (the counter `noisy`).
bool IsNoisy(const Outcome& outcome);

}  // namespace roofbench
