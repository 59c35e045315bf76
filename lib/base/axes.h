// SPDX-License-Identifier: Apache-2.0
// The axes of a case with their values, as results spell them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace roofbench {

using AxisValues =
    std::vector<std::pair<std::string, std::string>>;  // axis -> value, in the order of the family's axes

// A value of an axis: a size as a number, anything else as a string.
nlohmann::ordered_json AxisJson(const std::string& value);

}  // namespace roofbench
