// SPDX-License-Identifier: Apache-2.0
// Untrusted JSON: strict parsing without exceptions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace roofbench {

// Parses an object that is nested no deeper than `depth` and has no duplicate keys. InvalidArgument with the reason
// otherwise. Takes O(n log n) time.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, int depth);

// The same with the members in the order of the text. Refuses an object of more than kMostOrderedMembers, because it is
// searched from its beginning to its end for each member.
inline constexpr std::size_t kMostOrderedMembers = 256;
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJsonObject(std::string_view text, int depth);

// The integer under `key`, from `least` to 2^53; nullopt if there is none.
std::optional<int64_t> WholeNumber(const nlohmann::json& object, const char* key, int64_t least);
// The finite number under `key`; nullopt if there is none.
std::optional<double> FiniteNumber(const nlohmann::json& object, const char* key);

}  // namespace roofbench
