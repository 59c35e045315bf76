// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/axis_override.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"

namespace roofbench {

absl::StatusOr<std::vector<std::string>> ValuesOf(const std::string& text) {
  constexpr std::size_t kMost = 1000;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() == 1) return std::vector<std::string>{text};
  int64_t from = 0;
  int64_t to = 0;
  int64_t by = 0;
  const bool is_range = parts.size() == 3 && parts[2].size() > 1 && absl::SimpleAtoi(parts[0], &from) &&
                        absl::SimpleAtoi(parts[1], &to) && absl::SimpleAtoi(parts[2].substr(1), &by);
  const bool multiplies = is_range && parts[2][0] == 'x' && by >= 2;
  const bool adds = is_range && parts[2][0] == '+' && by >= 1;
  if ((!multiplies && !adds) || from < 1 || to < from) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a range; expected FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, as 256:4096:x2"));
  }
  std::vector<std::string> values;
  for (int64_t value = from;; value = multiplies ? value * by : value + by) {
    values.push_back(absl::StrCat(value));
    if (values.size() > kMost) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' has more than ", kMost, " values"));
    }
    if (multiplies ? value > to / by : value > to - by) break;  // the next value is out of range
  }
  return values;
}

absl::StatusOr<AxisOverride> ParseAxisOverride(const std::string& text, std::string_view listing) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  AxisOverride axis{.axis = parts.first, .values = {}};
  const std::vector<std::string> pieces = absl::StrSplit(parts.second, ',', absl::SkipEmpty());
  for (const std::string& piece : pieces) {
    const absl::StatusOr<std::vector<std::string>> values = ValuesOf(piece);
    if (!values.ok()) return values.status();
    axis.values.insert(axis.values.end(), values->begin(), values->end());
  }
  if (const std::size_t dot = axis.axis.find('.'); dot != std::string::npos) {
    axis.family = axis.axis.substr(0, dot);
    axis.axis = axis.axis.substr(dot + 1);
  }
  if (axis.axis.empty() || axis.values.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected [family.]name=v1,v2,…; ", View(listing), " lists the names"));
  }
  return axis;
}

}  // namespace roofbench
