// SPDX-License-Identifier: Apache-2.0
// Untrusted JSON: strict parsing without exceptions.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace roofbench {

// Parses an object that is nested no deeper than `depth` and has no duplicate keys. InvalidArgument with the reason
// otherwise. Takes O(n log n) time.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, int depth);

// The integer under `key`, from `least` to 2^53; nullopt if there is none.
std::optional<int64_t> WholeNumber(const nlohmann::json& object, const char* key, int64_t least);
// The finite number under `key`; nullopt if there is none.
std::optional<double> FiniteNumber(const nlohmann::json& object, const char* key);

}  // namespace roofbench
