// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

constexpr int64_t kLargest = int64_t{1} << 53;

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, int depth) {
  using nlohmann::json;
  std::string problem;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int at, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (at >= depth && (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) &&
        problem.empty()) {
      problem = "is nested too deeply";
    }
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && problem.empty()) {
      problem = absl::StrCat("names '", value.get<std::string>(), "' twice");
    }
    return problem.empty();  // false drops the value
  };
  json parsed = json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!problem.empty()) return absl::InvalidArgumentError(problem);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("is no valid JSON");
  if (!parsed.is_object()) return absl::InvalidArgumentError("is no JSON object");
  return parsed;
}

std::optional<int64_t> WholeNumber(const nlohmann::json& object, const char* key, int64_t least) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(kLargest)) return std::nullopt;
  const auto value = found->get<int64_t>();
  if (value < least || value > kLargest) return std::nullopt;
  return value;
}

std::optional<double> FiniteNumber(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace roofbench
