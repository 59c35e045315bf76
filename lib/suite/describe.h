// SPDX-License-Identifier: Apache-2.0
// Families as text for --list_axes and as a part of the contract that --describe=json prints.
#pragma once

#include <string>
#include <vector>

#include "lib/suite/family.h"
#include "nlohmann/json.hpp"

namespace roofbench {

// The text of --list_axes: every family with its axes and implementations, then what families share, once.
std::string DescribeAxes(const std::vector<Family>& families);

// {"name", "doc", "cache_default", "axes": […], "implementations": […], "growth": […]}: docs/contract.md has the
// fields.
nlohmann::ordered_json DescribeFamily(const Family& family);

// One object a rename of the families: {"family", "to"} or {"family", "axis", "to", "values"}.
nlohmann::ordered_json DescribeRenames(const std::vector<const Family*>& families);

}  // namespace roofbench
