// SPDX-License-Identifier: Apache-2.0
// JSON that somebody else wrote: parsed without exceptions, and refused where it is odd.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace roofbench {

// An object that is nested no deeper than `depth` and names nothing twice. The error says where it breaks the rules.
// Takes time in proportion to the text, but for the sorting of names.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, int depth);

// A whole number from `least` to 2^53 under `key`; nullopt if there is none.
std::optional<int64_t> WholeNumber(const nlohmann::json& object, const char* key, int64_t least);
// A finite number under `key`; nullopt if there is none.
std::optional<double> FiniteNumber(const nlohmann::json& object, const char* key);

}  // namespace roofbench
