// SPDX-License-Identifier: Apache-2.0
// What the program says of itself for other programs to read: its families and its counters, as JSON.
#pragma once

#include <string>
#include <vector>

#include "lib/suite/family.h"

namespace roofbench {

// {"schema": "roofbench-contract-1", "version": 1, "families": […], "counters": […]}: everything that
// `tools/report` knows about a name in a result. `indent` as nlohmann::json::dump: -1 is one line.
std::string ContractJson(const std::vector<const Family*>& families, int indent = -1);

}  // namespace roofbench
