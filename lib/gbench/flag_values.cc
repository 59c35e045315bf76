// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/flag_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace roofbench {

using absl::InvalidArgumentError;
using absl::StrCat;

namespace {

// "256:4096:x2" or "100:500:+100": whole numbers from the first to the second, by a factor or a step.
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
    return InvalidArgumentError(
        StrCat("'", text, "' is no range; expected FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, as 256:4096:x2"));
  }
  std::vector<std::string> values;
  for (int64_t value = from;; value = multiplies ? value * by : value + by) {
    values.push_back(StrCat(value));
    if (values.size() > kMost) return InvalidArgumentError(StrCat("'", text, "' has more than ", kMost, " values"));
    if (multiplies ? value > to / by : value > to - by) break;  // the next one is beyond
  }
  return values;
}

}  // namespace

absl::StatusOr<AxisOverride> ParseAxis(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  AxisOverride axis{.axis = parts.first, .values = {}};
  const std::vector<std::string> pieces = absl::StrSplit(parts.second, ',', absl::SkipEmpty());
  for (const std::string& piece : pieces) {
    const absl::StatusOr<std::vector<std::string>> values = ValuesOf(piece);
    if (!values.ok())
      return InvalidArgumentError(StrCat("--axis=", text, ": ", std::string(values.status().message())));
    axis.values.insert(axis.values.end(), values->begin(), values->end());
  }
  const std::size_t dot = axis.axis.find('.');
  if (dot != std::string::npos) {
    axis.family = axis.axis.substr(0, dot);
    axis.axis = axis.axis.substr(dot + 1);
  }
  if (axis.axis.empty() || axis.values.empty()) {
    return InvalidArgumentError(StrCat("--axis=", text, ": expected [family.]name=v1,v2,…; --list_axes has the names"));
  }
  return axis;
}

absl::StatusOr<bool> ParseSwitch(const std::string& flag, const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* yes : {"true", "1", "yes", "on"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off"}) {
    if (lower == no) return false;
  }
  return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected true or false"));
}

absl::StatusOr<double> ParseSeconds(const std::string& flag, const std::string& text) {
  double seconds = 0;
  constexpr double kDay = 86400;
  if (!absl::SimpleAtod(absl::StripSuffix(text, "s"), &seconds) || !(seconds >= 0) || seconds > kDay) {
    return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected seconds from 0 to 86400"));
  }
  return seconds;
}

absl::StatusOr<int64_t> ParseCount(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < least || count > most) {
    return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected a whole number from ", least, " to ", most));
  }
  return count;
}

absl::StatusOr<std::string> OneOf(const std::string& flag, const std::string& text,
                                  const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  return InvalidArgumentError(StrCat("--", flag, "=", text, ": expected ", absl::StrJoin(choices, ", ")));
}

}  // namespace roofbench
