// SPDX-License-Identifier: Apache-2.0
// Chooses the points of a run by the user's selection: suite, axis overrides, filter.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/cases/axis_override.h"
#include "lib/cases/family_grid.h"

namespace roofbench {

struct Selection {
  Suite suite = Suite::kQuick;
  std::vector<AxisOverride> axes;
  std::string filter;  // a regular expression on names; empty: everything
  // Where the filter finds nothing in `suite`, it selects from this one.
  std::optional<Suite> otherwise = {};
  // For the message of a filter without a match: its flag, what it was searched in (empty: the suite), and the flags
  // that list all names.
  std::string flag = "--benchmark_filter";
  std::string searched = {};
  std::string listing = "--benchmark_list_tests --suite=full";
};

// A point of a family that is in a plan.
template <typename FamilyType>
struct Planned {
  const FamilyType* family;
  Point point;
  std::string name;  // point.Name()
};
using PlannedPoint = Planned<FamilyGrid>;

// The selected points in execution order. Overridden axes replace values in every point of the suite; each name occurs
// once. InvalidArgument for an unknown family, axis or value, an invalid filter, a name that is too long for a result,
// or no match; the message lists valid values.
absl::StatusOr<std::vector<PlannedPoint>> PlanPoints(const std::vector<const FamilyGrid*>& families,
                                                     const Selection& selection);

// The names of cases, one per line, or as JSON [{"name", "axes": {…}}, …] with every axis of each.
template <typename FamilyType>
std::string ListCases(const std::vector<Planned<FamilyType>>& plan, bool as_json) {
  std::string text;
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const auto& planned : plan) {
    text.append(planned.name).append("\n");
    nlohmann::ordered_json axes = nlohmann::ordered_json::object();
    for (const auto& [axis, value] : AxesOf(planned.point)) axes[axis] = AxisJson(value);
    cases.push_back({{"name", planned.name}, {"axes", std::move(axes)}});
  }
  return as_json ? cases.dump(1) + "\n" : text;
}

}  // namespace roofbench
