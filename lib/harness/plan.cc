#include "lib/harness/plan.h"

#include <algorithm>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/harness/text.h"
#include "lib/harness/unverified.h"

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
    if (!wanted.family.empty() && family.name() != wanted.family) continue;
    family_found = true;
    for (const AxisSpec& axis : family.axes()) axes.insert(axis.name);
    const AxisSpec* axis = FindAxis(family, wanted.axis);
    if (axis == nullptr) continue;
    axis_found = true;
    for (const std::string& value : wanted.values) {
      if (ValidValue(*axis, family.axes(), value)) continue;
      const std::string valid = axis->choices.empty() ? "a whole number from 1" : absl::StrJoin(axis->choices, ", ");
      return InvalidArgumentError(StrCat("--axis: '", value, "' is no value of axis ", wanted.axis, " of ",
                                         family.name(), "; expected ", valid));
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
                                  const std::vector<AxisOverride>& overrides) {
  for (const AxisOverride& wanted : overrides) {
    if (!wanted.family.empty() && wanted.family != family.name()) continue;
    if (FindAxis(family, wanted.axis) == nullptr) continue;
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
absl::StatusOr<std::function<bool(const std::string&)>> MakeFilter(std::string filter) {
  if (filter.empty() || filter == "all") return [](const std::string&) { return true; };
  const bool negative = filter.front() == '-';
  if (negative) filter.erase(0, 1);
  try {
    const std::regex expression(filter, std::regex_constants::extended);
    return [expression, negative](const std::string& name) { return std::regex_search(name, expression) != negative; };
  } catch (const std::regex_error& error) {
    return InvalidArgumentError(
        StrCat("--benchmark_filter=", filter, " is no valid regular expression: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<std::vector<PlannedCase>> MakePlan(const std::vector<Family>& families, const Options& options) {
  for (const AxisOverride& wanted : options.axes) {
    if (absl::Status status = CheckOverride(families, wanted); !status.ok()) return status;
  }
  const auto filter = MakeFilter(options.filter);
  if (!filter.ok()) return filter.status();
  std::vector<PlannedCase> plan;
  std::set<std::string> names;
  for (const Family& family : families) {
    for (Point& point : ApplyOverrides(family, family.Points(options.suite), options.axes)) {
      std::string name = point.Name();
      // Google Benchmark adds this suffix to names with manual time; filters that were written for its output hold.
      if ((*filter)(StrCat(name, "/manual_time")) && names.insert(name).second) {
        plan.push_back({&family, std::move(point), std::move(name)});
      }
    }
  }
  if (plan.empty()) {
    return InvalidArgumentError(StrCat("--benchmark_filter=", options.filter, " matches no case of the ",
                                       View(Name(options.suite)),
                                       " suite; --benchmark_list_tests --suite=full lists all"));
  }
  return plan;
}

std::string DescribeAxes(const std::vector<Family>& families) {
  std::string text;
  for (const Family& family : families) {
    absl::StrAppend(&text, family.name(), ": ", family.doc(), "\n");
    for (const AxisSpec& axis : family.axes()) {
      std::vector<std::string> values;
      for (const Point& point : family.Points(Suite::kFull)) {
        for (const auto& [name, value] : point.values()) {
          if (name == axis.name && std::find(values.begin(), values.end(), value) == values.end())
            values.push_back(value);
        }
      }
      const std::string valid = axis.choices.empty() ? StrCat("whole number; registered ", absl::StrJoin(values, ", "))
                                                     : absl::StrJoin(axis.choices, ", ");
      absl::StrAppend(&text, "  ", axis.name, std::string(axis.name.size() < 10 ? 10 - axis.name.size() : 1, ' '),
                      valid, axis.default_value.empty() ? "" : StrCat(" [", axis.default_value, "]"),
                      axis.doc.empty() ? "" : StrCat("  (", axis.doc, ")"), "\n");
    }
  }
  return absl::StrCat(text, DescribeUnverified());
}

}  // namespace roofbench
