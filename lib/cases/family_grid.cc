// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/family_grid.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

// All combinations of the lists of `grid`, axes in the order of `specs`, the last axis varying fastest.
std::vector<AxisValues> Product(const std::vector<AxisSpec>& specs, const GridAxes& grid) {
  std::vector<AxisValues> product = {{}};
  for (const AxisSpec& spec : specs) {
    const auto given =
        std::find_if(grid.begin(), grid.end(), [&](const auto& axis) { return axis.first == spec.name; });
    const std::vector<std::string> values =
        given == grid.end() ? std::vector<std::string>{spec.default_value} : given->second.texts();
    std::vector<AxisValues> longer;
    for (const AxisValues& prefix : product) {
      for (const std::string& value : values) {
        longer.push_back(prefix);
        longer.back().emplace_back(spec.name, value);
      }
    }
    product = std::move(longer);
  }
  return product;
}

std::string FullDoc(const AxisSpec& axis) {
  const std::string shared = SharedAxisDoc(axis.name);
  if (shared.empty() || axis.doc.empty()) return shared + axis.doc;
  return absl::StrCat(shared, "; ", axis.doc);
}

Json DescribeAxis(const AxisSpec& axis, const std::vector<Point>& points) {
  const std::string kind(KindOf(axis));
  Json described = {{"name", axis.name},  {"doc", FullDoc(axis)},
                    {"kind", kind},       {"values", axis.choices.empty() ? ValuesIn(points, axis.name) : axis.choices},
                    {"default", nullptr}, {"role", axis.name == kImplAxis ? "impl" : kind == "number" ? "size" : ""}};
  if (!axis.default_value.empty()) described["default"] = axis.default_value;
  return described;
}

bool Contains(Suite suite, Suite other) {
  const bool of_machine = suite >= Suite::kMachineQuick;
  return other <= suite && of_machine == (other >= Suite::kMachineQuick);
}

}  // namespace

std::string_view Name(Suite suite) {
  constexpr std::string_view kNames[] = {"quick", "standard", "full", "machine_quick", "machine"};
  return kNames[static_cast<int>(suite)];
}

AxisList::AxisList(std::initializer_list<AxisValue> values) {
  for (const AxisValue& value : values) texts_.push_back(value.text);
}

std::vector<AxisSpec> WithCacheAxis(std::vector<AxisSpec> axes, std::string default_cache) {
  std::stable_partition(axes.begin(), axes.end(), [](const AxisSpec& axis) { return axis.name == kImplAxis; });
  axes.push_back(SharedAxis(kCacheAxis, {kCold, kWarm}, std::move(default_cache)));
  return axes;
}

FamilyGrid::FamilyGrid(GridParts parts)
    : parts_(std::move(parts)), axes_(std::make_shared<const std::vector<AxisSpec>>(std::move(parts_.axes))) {}

const AxisSpec* FamilyGrid::FindAxis(std::string_view name) const {
  const auto found = std::ranges::find(*axes_, name, &AxisSpec::name);
  return found == axes_->end() ? nullptr : &*found;
}

std::vector<Point> FamilyGrid::Points(std::optional<Suite> suite) const {
  std::vector<Point> points;
  std::set<std::string> seen;
  for (const auto& [from, grid] : parts_.grids) {
    if (suite && !Contains(*suite, from)) continue;
    for (AxisValues& values : Product(*axes_, grid)) {
      Point point(name(), axes_.get(), std::move(values));
      if (seen.insert(point.Name()).second) points.push_back(std::move(point));
    }
  }
  return points;
}

std::string FamilyGrid::Problem() const {
  if (parts_.grids.empty()) return "it has no points";
  for (const auto& [suite, grid] : parts_.grids) {
    for (const auto& [name, list] : grid) {
      if (FindAxis(name) == nullptr) return absl::StrCat("its points use unknown axis '", name, "'");
    }
  }
  for (const ExpectedGrowth& growth : growth()) {
    if (FindAxis(growth.axis) == nullptr) return absl::StrCat("its growth is that of unknown axis '", growth.axis, "'");
  }
  for (const Point& point : Points()) {
    for (const auto& [name, value] : point.values()) {
      const AxisSpec& axis = *FindAxis(name);
      if (ValidValue(axis, *axes_, value)) continue;
      return absl::StrCat("'", value, "' is not a value of its axis ", name, " (", ExpectedValues(axis), ")");
    }
  }
  return {};
}

Json DescribeGrid(const FamilyGrid& family, Json implementations) {
  Json described = {{"name", family.name()},
                    {"doc", family.doc()},
                    {"cache_default", family.axes().back().default_value},
                    {"axes", Json::array()},
                    {"implementations", std::move(implementations)},
                    {"growth", Json::array()}};
  const std::vector<Point> points = family.Points();
  for (const AxisSpec& axis : family.axes()) described["axes"].push_back(DescribeAxis(axis, points));
  for (const ExpectedGrowth& growth : family.growth()) {
    described["growth"].push_back({{"axis", growth.axis}, {"exponent", growth.exponent}});
  }
  return described;
}

std::string_view KindOf(const AxisSpec& axis) {
  if (!axis.choices.empty()) return axis.several ? "choices" : "choice";
  return axis.fractions ? "decimal" : "number";
}

std::vector<std::string> ValuesIn(const std::vector<Point>& points, std::string_view axis) {
  std::vector<std::string> values;
  for (const Point& point : points) {
    for (const auto& [name, value] : point.values()) {
      if (name == axis && std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

}  // namespace roofbench
