// SPDX-License-Identifier: Apache-2.0
// A description of the program's families and counters for other programs, as JSON.
#pragma once

#include <string>
#include <vector>

#include "lib/suite/family.h"

namespace roofbench {

// {"schema": "roofbench-contract-1", "version": 1, "families": […], "counters": […]}: everything that `tools/report`
// knows about the names in a result. `indent` as in nlohmann::json::dump: -1 is one line.
std::string ContractJson(const std::vector<const Family*>& families, int indent = -1);

}  // namespace roofbench
