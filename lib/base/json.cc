// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

using nlohmann::json;

constexpr int64_t kLargest = int64_t{1} << 53;

// Checks the rules and stops at the first violation. A second pass creates the values: the parser's callback, which
// could check them in one pass, visits all members of an object after each of them, which is quadratic.
class Rules : public nlohmann::json_sax<json> {
 public:
  Rules(int depth, std::size_t most_members) : depth_(depth), most_members_(most_members) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override {
    keys_.emplace_back();
    return Enter();
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      problem_ = absl::StrCat("names '", name, "' twice");
      return false;
    }
    if (keys_.back().size() <= most_members_) return true;
    problem_ = absl::StrCat("has an object of more than ", most_members_, " members");
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --open_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return Enter(); }
  bool end_array() override {
    --open_;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const json::exception& /*error*/) override {
    problem_ = "is not valid JSON";
    return false;
  }

 private:
  bool Enter() {
    if (open_++ < depth_) return true;
    problem_ = "is nested too deeply";
    return false;
  }

  const int depth_;
  const std::size_t most_members_;
  int open_ = 0;                             // objects and arrays
  std::vector<std::set<std::string>> keys_;  // of the open objects
  std::string problem_;
};

template <typename Value>
absl::StatusOr<Value> Parsed(std::string_view text, int depth, std::size_t most_members) {
  Rules rules(depth, most_members);
  if (!json::sax_parse(text.begin(), text.end(), &rules)) return absl::InvalidArgumentError(rules.problem());
  Value parsed = Value::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  return parsed;
}

}  // namespace

absl::StatusOr<json> ParseJsonObject(std::string_view text, int depth) {
  return Parsed<json>(text, depth, std::numeric_limits<std::size_t>::max());
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJsonObject(std::string_view text, int depth) {
  return Parsed<nlohmann::ordered_json>(text, depth, kMostOrderedMembers);
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
