// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/regex.h"
#include "lib/base/text.h"
#include "lib/suite/case_names.h"

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

const AxisSpec* FindAxis(const Family& family, const std::string& name) {
  for (const AxisSpec& axis : family.axes()) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

// Each override must name a family, an axis of it and valid values.
absl::Status CheckOverride(const std::vector<Family>& families, const AxisOverride& wanted) {
  std::vector<std::string> names;
  std::set<std::string> axes;
  bool family_found = wanted.family.empty();
  bool axis_found = false;
  for (const Family& family : families) {
    names.push_back(family.name());
    if (!wanted.family.empty() && !IsCalled(family, wanted.family)) continue;
    family_found = true;
    for (const AxisSpec& axis : family.axes()) axes.insert(axis.name);
    const AxisOverride today = Today(family, wanted);
    const AxisSpec* axis = FindAxis(family, today.axis);
    if (axis == nullptr) continue;
    axis_found = true;
    for (const std::string& value : today.values) {
      if (ValidValue(*axis, family.axes(), value)) continue;
      return InvalidArgumentError(StrCat("--axis: '", value, "' is no value of axis ", today.axis, " of ",
                                         family.name(), "; expected ", ExpectedValues(*axis)));
    }
  }
  if (!family_found) {
    return InvalidArgumentError(
        StrCat("--axis: there is no family '", wanted.family, "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (!axis_found) {
    return InvalidArgumentError(StrCat("--axis: ", wanted.family.empty() ? "no family" : wanted.family, " has ",
                                       wanted.family.empty() ? "an" : "no", " axis '", wanted.axis, "'; there are ",
                                       absl::StrJoin(axes, ", ")));
  }
  return absl::OkStatus();
}

std::vector<Point> ApplyOverrides(const Family& family, std::vector<Point> points,
                                  const std::vector<AxisOverride>& overrides, std::set<std::string>& notes) {
  for (const AxisOverride& given : overrides) {
    if (!given.family.empty() && !IsCalled(family, given.family)) continue;
    const AxisOverride wanted = Today(family, given);
    if (FindAxis(family, wanted.axis) == nullptr) continue;
    if (wanted.axis != given.axis || wanted.values != given.values ||
        (!given.family.empty() && given.family != family.name())) {
      notes.insert(StrCat("--axis=", given.axis, "=", absl::StrJoin(given.values, ","), " is --axis=", family.name(),
                          ".", wanted.axis, "=", absl::StrJoin(wanted.values, ","), " today"));
    }
    std::vector<Point> replaced;
    for (const Point& point : points) {
      for (const std::string& value : wanted.values) replaced.push_back(point.With(wanted.axis, value));
    }
    points = std::move(replaced);
  }
  return points;
}

// Google Benchmark's rules: a POSIX extended expression found anywhere in the name; "-" in front turns it round; "all"
// and the empty text choose everything.
struct Filter {
  std::optional<Regex> expression = {};  // none: everything matches
  bool negative = false;

  bool Finds(const std::string& name) const { return !expression || expression->Finds(name); }
};

absl::StatusOr<Filter> MakeFilter(std::string filter) {
  if (filter.empty() || filter == "all") return Filter();
  const bool negative = filter.front() == '-';
  if (negative) filter.erase(0, 1);
  const absl::StatusOr<Regex> expression = Regex::Make(filter);
  if (expression.ok()) return Filter{*expression, negative};
  constexpr std::size_t kShown = 200;
  return InvalidArgumentError(StrCat("--benchmark_filter=", filter.substr(0, kShown), filter.size() > kShown ? "…" : "",
                                     " is no valid regular expression: ", std::string(expression.status().message())));
}

enum class Match { kNo, kYes, kByOldName };

// Results of before have the suffix that Google Benchmark adds to names with manual time: filters that were written for
// it hold.
bool FindsName(const Filter& filter, const std::string& name) {
  return filter.Finds(name) || filter.Finds(StrCat(name, "/manual_time"));
}

// A filter may spell defaults that names leave out, and names of before.
Match Matches(const Filter& filter, const Family& family, const Point& point) {
  const std::optional<std::string> old_name = OldName(family, point);
  const bool now = FindsName(filter, point.Name()) || FindsName(filter, FullName(point));
  const bool before = old_name && FindsName(filter, *old_name);
  if (now || before) {
    if (filter.negative) return Match::kNo;
    return now ? Match::kYes : Match::kByOldName;
  }
  return filter.negative ? Match::kYes : Match::kNo;
}

// What names of cases are made of: families and "axis:value" of every registered case.
std::vector<std::string> PartsOfNames(const std::vector<Family>& families) {
  std::set<std::string> parts;
  for (const Family& family : families) {
    parts.insert(family.name());
    for (const Point& point : family.Points(Suite::kFull)) {
      for (const auto& [axis, value] : AxesOf(point)) parts.insert(StrCat(axis, ":", value));
    }
  }
  return {parts.begin(), parts.end()};
}

// "; did you mean 'matmul'?" for a filter in which a word is nearly a part of a name; empty if none is.
std::string Suggestion(const std::vector<Family>& families, const std::string& filter) {
  const std::vector<std::string> parts = PartsOfNames(families);
  const auto ends_word = [](char one) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(one)) && one != '_' && one != ':' && one != '.';
  };
  for (auto begin = filter.begin(); begin != filter.end();) {
    const auto end = std::find_if(begin, filter.end(), ends_word);
    std::string word(begin, end);
    while (absl::EndsWith(word, ".")) word.pop_back();  // of ".*"
    const bool known = std::any_of(parts.begin(), parts.end(),
                                   [&](const std::string& part) { return part.find(word) != std::string::npos; });
    const std::string nearest = known ? "" : Nearest(word, parts);
    if (!nearest.empty()) return StrCat("; did you mean '", nearest, "' for '", word, "'?");
    begin = end == filter.end() ? end : std::next(end);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<PlannedCase>> MakePlan(const std::vector<Family>& families, const Selection& selection,
                                                  std::vector<std::string>* notes) {
  for (const AxisOverride& wanted : selection.axes) {
    if (absl::Status status = CheckOverride(families, wanted); !status.ok()) return status;
  }
  const auto filter = MakeFilter(selection.filter);
  if (!filter.ok()) return filter.status();
  std::vector<PlannedCase> plan;
  std::set<std::string> names;
  std::map<std::string, std::string> by_old_name;  // family -> note
  std::set<std::string> lines;
  for (const Family& family : families) {
    for (Point& point : ApplyOverrides(family, family.Points(selection.suite), selection.axes, lines)) {
      std::string name = point.Name();
      const Match match = Matches(*filter, family, point);
      if (match == Match::kNo || !names.insert(name).second) continue;
      if (match == Match::kByOldName) {
        by_old_name.try_emplace(
            family.name(), StrCat("--benchmark_filter=", selection.filter, " names cases of ", family.name(),
                                  " as they were called before: ", *OldName(family, point), " is ", name, " today"));
      }
      plan.push_back({&family, std::move(point), std::move(name)});
    }
  }
  if (notes != nullptr) {
    for (const auto& [family, note] : by_old_name) lines.insert(note);
    notes->assign(lines.begin(), lines.end());
  }
  if (plan.empty()) {
    return InvalidArgumentError(StrCat("--benchmark_filter=", selection.filter, " matches no case of the ",
                                       View(Name(selection.suite)), " suite", Suggestion(families, selection.filter),
                                       "; --benchmark_list_tests --suite=full lists all"));
  }
  return plan;
}

}  // namespace roofbench
