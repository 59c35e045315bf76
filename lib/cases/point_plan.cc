// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/point_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/regex.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// As many rows as tools/report reads in one result.
constexpr std::size_t kMostPoints = 200'000;
constexpr std::size_t kLongestName = 300;  // the same
constexpr std::size_t kShown = 200;        // of a text in a message

// Checks that an override names a family and one of its axes.
absl::Status CheckOverride(const std::vector<const FamilyGrid*>& families, const AxisOverride& wanted) {
  std::vector<std::string> names;
  std::set<std::string> axes;
  bool family_found = wanted.family.empty();
  bool axis_found = false;
  for (const FamilyGrid* family : families) {
    names.push_back(family->name());
    if (!wanted.family.empty() && family->name() != wanted.family) continue;
    family_found = true;
    for (const AxisSpec& axis : family->axes()) axes.insert(axis.name);
    axis_found |= family->FindAxis(wanted.axis) != nullptr;
  }
  if (!family_found) {
    return InvalidArgumentError(
        StrCat(wanted.flag, ": there is no family '", wanted.family, "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (!axis_found) {
    return InvalidArgumentError(StrCat(wanted.flag, ": ", wanted.family.empty() ? "no family" : wanted.family, " has ",
                                       wanted.family.empty() ? "an" : "no", " axis '", wanted.axis, "'; there are ",
                                       absl::StrJoin(axes, ", ")));
  }
  return absl::OkStatus();
}

// Checks the values of those that concern the family.
absl::Status CheckValues(const FamilyGrid& family, const std::vector<AxisOverride>& overrides) {
  for (const AxisOverride& wanted : overrides) {
    const AxisSpec* const axis = family.FindAxis(wanted.axis);
    if (axis == nullptr || (!wanted.family.empty() && family.name() != wanted.family)) continue;
    for (const std::string& value : wanted.values) {
      if (ValidValue(*axis, family.axes(), value)) continue;
      return InvalidArgumentError(StrCat(wanted.flag, ": '", value, "' is not a value of axis ", wanted.axis, " of ",
                                         family.name(), "; expected ", ExpectedValues(*axis)));
    }
  }
  return absl::OkStatus();
}

// The first point of each name.
std::vector<Point> WithoutRepetitions(std::vector<Point> points) {
  std::set<std::string> names;
  std::erase_if(points, [&](const Point& point) { return !names.insert(point.Name()).second; });
  return points;
}

absl::StatusOr<std::vector<Point>> ApplyOverrides(const FamilyGrid& family, std::vector<Point> points,
                                                  const std::vector<AxisOverride>& overrides) {
  for (const AxisOverride& wanted : overrides) {
    if (!wanted.family.empty() && family.name() != wanted.family) continue;
    if (family.FindAxis(wanted.axis) == nullptr || points.empty()) continue;
    // Points that differ in this axis alone become one.
    for (Point& point : points) point = point.With(wanted.axis, wanted.values.front());
    points = WithoutRepetitions(std::move(points));
    if (points.size() * wanted.values.size() > kMostPoints) {
      return InvalidArgumentError(StrCat("--axis: ", family.name(), " would have ", points.size(), " times ",
                                         wanted.values.size(), " points, and a family has at most ", kMostPoints,
                                         "; give fewer values of ", wanted.axis));
    }
    std::vector<Point> replaced;
    for (const Point& point : points) {
      for (const std::string& value : wanted.values) replaced.push_back(point.With(wanted.axis, value));
    }
    points = std::move(replaced);
  }
  return points;
}

// Follows Google Benchmark's rules: a POSIX extended expression matches anywhere in the name; a leading "-" inverts it;
// "all" and the empty string select everything.
struct Filter {
  std::optional<Regex> expression = {};  // nullopt: everything matches
  bool negative = false;

  // Filters written for Google Benchmark expect its suffix for manual time, and may spell out defaults.
  bool Selects(const Point& point) const {
    if (!expression) return !negative;
    const std::string suffix = "/manual_time";
    for (const std::string& name : {point.Name(), point.FullName()}) {
      if (expression->Finds(name) || expression->Finds(name + suffix)) return !negative;
    }
    return negative;
  }
};

absl::StatusOr<Filter> MakeFilter(std::string filter) {
  if (filter.empty() || filter == "all") return Filter();
  const bool negative = filter.front() == '-';
  if (negative) filter.erase(0, 1);
  const absl::StatusOr<Regex> expression = Regex::Make(filter);
  if (expression.ok()) return Filter{*expression, negative};
  return InvalidArgumentError(StrCat("--benchmark_filter=", Excerpt(filter, kShown),
                                     " is not a valid regular expression: ", expression.status().message()));
}

// Families and "axis:value" of all registered cases; of those of the families that the filter names, if there are any.
std::vector<std::string> PartsOfNames(const std::vector<const FamilyGrid*>& families, const std::string& filter) {
  const std::vector<std::string> words = absl::StrSplit(filter, absl::ByAnyChar("/^$()|"));
  const auto is_named = [&](const FamilyGrid* family) {
    return std::find(words.begin(), words.end(), family->name()) != words.end();
  };
  const bool any_named = std::any_of(families.begin(), families.end(), is_named);
  std::set<std::string> parts;
  for (const FamilyGrid* family : families) {
    parts.insert(family->name());
    if (any_named && !is_named(family)) continue;
    for (const Point& point : family->Points()) {
      for (const auto& [axis, value] : AxesOf(point)) parts.insert(StrCat(axis, ":", value));
    }
  }
  return {parts.begin(), parts.end()};
}

// "; names that have all of its parts: 12, the first 'matmul/…'" for a filter of parts that are not next to each other
// in a name; empty if there are none.
std::string NamesOfAllParts(const std::vector<const FamilyGrid*>& families, const Selection& selection) {
  const std::vector<std::string> parts = absl::StrSplit(selection.filter, absl::ByAnyChar("/^$"), absl::SkipEmpty());
  std::string first;
  std::size_t found = 0;
  for (const FamilyGrid* family : families) {
    for (const Point& point : family->Points()) {
      const std::vector<std::string> of_name = absl::StrSplit(point.FullName(), '/');
      const auto has = [&](const std::string& part) {
        return std::find(of_name.begin(), of_name.end(), part) != of_name.end();
      };
      if (!std::all_of(parts.begin(), parts.end(), has)) continue;
      if (found++ == 0) first = point.Name();
    }
  }
  if (parts.size() < 2 || found == 0) return "";
  return StrCat("; names that have all of its parts: ", found, ", the first '", first, "' (", selection.flag, "='",
                absl::StrJoin(parts, ".*/"), "' selects them)");
}

// "; --axis=generate.model=checkpoint makes such cases" for a word "axis:value" of a value that the registered cases of
// a named family lack; empty for others.
std::string AxisThatMakes(const std::vector<const FamilyGrid*>& families, const std::string& filter,
                          const std::string& word) {
  const std::vector<std::string> pair = absl::StrSplit(word, absl::MaxSplits(':', 1));
  if (pair.size() != 2 || pair[1].empty()) return "";
  const std::vector<std::string> words = absl::StrSplit(filter, absl::ByAnyChar("/^$()|"));
  for (const FamilyGrid* family : families) {
    const AxisSpec* const axis = family->FindAxis(pair[0]);
    const bool is_named = std::find(words.begin(), words.end(), family->name()) != words.end();
    if (!is_named || axis == nullptr || !ValidValue(*axis, family->axes(), pair[1])) continue;
    return StrCat("; --axis=", family->name(), ".", pair[0], "=", pair[1], " makes such cases");
  }
  return "";
}

// "; did you mean 'matmul'?" for a filter with a word that is close to a part of a name; empty if there is none.
std::string Suggestion(const std::vector<const FamilyGrid*>& families, const Selection& selection) {
  const std::string& filter = selection.filter;
  const std::vector<std::string> parts = PartsOfNames(families, filter);
  const auto ends_word = [](char one) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(one)) && one != '_' && one != ':' && one != '.';
  };
  for (auto begin = filter.begin(); begin != filter.end();) {
    const auto end = std::find_if(begin, filter.end(), ends_word);
    std::string word(begin, end);
    while (absl::EndsWith(word, ".")) word.pop_back();  // the dot of ".*"
    // A word with the end of its part.
    const bool is_whole = end != filter.end() && (*end == '/' || *end == '$');
    const bool known = std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return is_whole ? absl::EndsWith(part, word) : part.find(word) != std::string::npos;
    });
    std::string nearest = known ? "" : Nearest(word, parts);
    if (nearest.empty() && !known && is_whole && !word.empty()) {
      const auto longer = std::find_if(parts.begin(), parts.end(),
                                       [&](const std::string& part) { return absl::StartsWith(part, word); });
      if (longer != parts.end()) nearest = *longer;
    }
    if (!nearest.empty()) return StrCat("; did you mean '", nearest, "' for '", word, "'?");
    std::string made = known ? "" : AxisThatMakes(families, filter, word);
    if (!made.empty()) return made;
    begin = end == filter.end() ? end : std::next(end);
  }
  return NamesOfAllParts(families, selection);
}

// "; --axis renames the cases that it selects, the first to '…'" for a filter of names that the axes change; empty if
// it selects none of those either.
std::string RenamedByAxes(const std::vector<const FamilyGrid*>& families, const Selection& selection,
                          const Filter& filter) {
  for (const FamilyGrid* family : families) {
    for (const Point& point : family->Points()) {
      if (!filter.Selects(point)) continue;
      const absl::StatusOr<std::vector<Point>> points = ApplyOverrides(*family, {point}, selection.axes);
      if (!points.ok() || points->empty() || points->front().Name() == point.Name()) continue;
      return StrCat("; ", selection.axes.front().flag, " renames the cases that it selects, the first to '",
                    points->front().Name(), "'");
    }
  }
  return "";
}

// The selected points of a suite, if there are any.
absl::StatusOr<std::vector<PlannedPoint>> PointsOf(Suite suite, const std::vector<const FamilyGrid*>& families,
                                                   const std::vector<AxisOverride>& axes, const Filter& filter) {
  std::vector<PlannedPoint> plan;
  std::set<std::string> names;
  for (const FamilyGrid* family : families) {
    if (absl::Status status = CheckValues(*family, axes); !status.ok()) {
      const std::vector<Point> registered = family->Points(suite);
      const bool is_selected =
          std::any_of(registered.begin(), registered.end(), [&](const Point& point) { return filter.Selects(point); });
      if (is_selected) return status;
      continue;
    }
    absl::StatusOr<std::vector<Point>> points = ApplyOverrides(*family, family->Points(suite), axes);
    if (!points.ok()) return points.status();
    for (Point& point : *points) {
      std::string name = point.Name();
      if (!filter.Selects(point) || !names.insert(name).second) continue;
      if (name.size() > kLongestName) {
        return InvalidArgumentError(
            StrCat("the name ", Excerpt(name, kShown), " has more than ", kLongestName, " bytes; shorten the values"));
      }
      plan.push_back({family, std::move(point), std::move(name)});
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<PlannedPoint>> PlanPoints(const std::vector<const FamilyGrid*>& families,
                                                     const Selection& selection) {
  for (auto wanted = selection.axes.begin(); wanted != selection.axes.end(); ++wanted) {
    if (absl::Status status = CheckOverride(families, *wanted); !status.ok()) return status;
    const auto is_same = [&](const AxisOverride& other) {
      return other.family == wanted->family && other.axis == wanted->axis;
    };
    if (const auto first = std::find_if(selection.axes.begin(), wanted, is_same); first != wanted) {
      const std::string name = wanted->family.empty() ? wanted->axis : StrCat(wanted->family, ".", wanted->axis);
      return InvalidArgumentError(StrCat("--axis=", name, " is given twice; --axis=", name, "=",
                                         absl::StrJoin(first->values, ","), ",", absl::StrJoin(wanted->values, ","),
                                         " has the values of both"));
    }
  }
  const auto filter = MakeFilter(selection.filter);
  if (!filter.ok()) return filter.status();
  auto plan = PointsOf(selection.suite, families, selection.axes, *filter);
  if (plan.ok() && plan->empty() && selection.otherwise) {
    plan = PointsOf(*selection.otherwise, families, selection.axes, *filter);
  }
  if (plan.ok() && plan->empty()) {
    std::string searched = selection.searched;
    if (searched.empty()) {
      const std::string more = selection.otherwise ? StrCat(" or ", View(Name(*selection.otherwise))) : "";
      searched = StrCat(View(Name(selection.suite)), more, " suite");
    }
    std::string hint = RenamedByAxes(families, selection, *filter);
    if (hint.empty()) hint = Suggestion(families, selection);
    return InvalidArgumentError(StrCat(selection.flag, "=", selection.filter, " matches no case of the ", searched,
                                       hint, absl::EndsWith(hint, "?") ? " " : "; ", selection.listing, " lists all"));
  }
  return plan;
}

}  // namespace roofbench
