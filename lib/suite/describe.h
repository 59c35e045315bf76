// SPDX-License-Identifier: Apache-2.0
// Families as text for --list_axes and as JSON in the contract that --describe=json prints.
#pragma once

#include <string>
#include <vector>

#include "lib/suite/family.h"
#include "nlohmann/json_fwd.hpp"

namespace roofbench {

// The text of --list_axes: every family with its axes and implementations, then their shared parts, once.
std::string DescribeAxes(const std::vector<Family>& families);

// As DescribeGrid.
nlohmann::ordered_json DescribeFamily(const Family& family);
nlohmann::ordered_json DescribeFamilies(const std::vector<const Family*>& families);

}  // namespace roofbench
