// SPDX-License-Identifier: Apache-2.0
// Families, their points and plans: lib/cases.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/cases/axis_override.h"
#include "lib/cases/family_grid.h"
#include "lib/cases/point_plan.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

template <typename Value>
Value Checked(absl::StatusOr<Value> value, const std::string& what = "") {
  if (!value.ok()) throw std::invalid_argument(what + std::string(value.status().message()));
  return *std::move(value);
}

std::vector<std::string> Expanded(const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  for (const std::string& text : texts) {
    for (std::string& value : Checked(ValuesOf(text))) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
    }
  }
  return values;
}

// An axis as Python declares it: name, values and ranges, default, doc.
using Declared = std::tuple<std::string, std::vector<std::string>, std::optional<std::string>, std::string>;

// Of whole numbers where all its values are, else of numbers, or else of these choices. Its default may be the name of
// another axis.
AxisSpec AxisOf(const Declared& declared, const std::vector<std::string>& values, const std::vector<AxisSpec>& named) {
  const auto& [name, texts, default_value, doc] = declared;
  std::vector<std::string> given = values;
  if (default_value) given.push_back(*default_value);
  AxisSpec axis = {.name = name, .default_value = default_value.value_or(""), .doc = doc};
  for (const bool fractions : {false, true}) {
    axis.fractions = fractions;
    if (std::ranges::all_of(given, [&](const std::string& value) { return ValidValue(axis, named, value); })) {
      return axis;
    }
  }
  axis.fractions = false;
  const auto check = [&](bool is_valid, const std::string& value) {
    if (is_valid) return;
    throw std::invalid_argument("'" + value + "' is not a value of its axis " + name + " (" + ExpectedValues(axis) +
                                ")");
  };
  for (const std::string& value : given) {
    const bool is_number = value.find_first_not_of("0123456789.") == std::string::npos;
    check(!is_number || std::strtod(value.c_str(), nullptr) <= kLargestNumber, value);
  }
  axis.choices = values;
  if (default_value) check(ValidValue(axis, named, *default_value), *default_value);
  return axis;
}

FamilyGrid GridOf(const std::string& name, const std::string& doc, const std::vector<Declared>& declared,
                  const std::vector<std::pair<std::string, double>>& growth) {
  std::vector<AxisSpec> named;
  for (const Declared& one : declared) named.push_back({.name = std::get<0>(one)});
  GridParts parts = {.name = name, .doc = doc};
  GridAxes grid;
  std::string cache = kCold;
  for (const Declared& one : declared) {
    const auto& [axis, texts, default_value, axis_doc] = one;
    const std::vector<std::string> values = Expanded(texts);
    if (values.empty()) throw std::invalid_argument("axis " + axis + " needs at least one value");
    grid.emplace_back(axis, values);
    if (axis == kCacheAxis) {
      cache = default_value.value_or(cache);
    } else {
      parts.axes.push_back(AxisOf(one, values, named));
    }
  }
  parts.axes = WithCacheAxis(std::move(parts.axes), cache);
  parts.grids = {{Suite::kQuick, std::move(grid)}};
  for (const auto& [axis, exponent] : growth) {
    if (std::ranges::find(parts.axes, axis, &AxisSpec::name) == parts.axes.end()) {
      throw std::invalid_argument("growth: there is no axis " + axis);
    }
    parts.growth.push_back({axis, exponent});
  }
  FamilyGrid family(std::move(parts));
  if (const std::string problem = family.Problem(); !problem.empty()) throw std::invalid_argument(problem);
  return family;
}

nb::dict DictOf(const AxisValues& values) {
  nb::dict dict;
  for (const auto& [axis, value] : values) dict[nb::str(axis.c_str())] = nb::str(value.c_str());
  return dict;
}

// A point in Python: its name; its values, of which a default may name another axis; and those with that resolved.
nb::tuple InPython(const Point& point) {
  return nb::make_tuple(point.Name(), DictOf(point.values()), DictOf(AxesOf(point)));
}

std::vector<nb::tuple> PointsOf(const FamilyGrid& family) {
  std::vector<nb::tuple> points;
  for (const Point& point : family.Points(Suite::kFull)) points.push_back(InPython(point));
  return points;
}

// Python's implementations have no device or proof of their own.
std::string Describe(const FamilyGrid& family) {
  auto implementations = nlohmann::ordered_json::array();
  if (const AxisSpec* axis = family.FindAxis(kImplAxis)) {
    for (const std::string& name : axis->choices) {
      implementations.push_back({{"name", name},
                                 {"doc", ""},
                                 {"devices", nlohmann::ordered_json::array()},
                                 {"dtypes", nlohmann::ordered_json::array()},
                                 {"limits", ""},
                                 {"proof", nlohmann::ordered_json::object()}});
    }
  }
  return DescribeGrid(family, std::move(implementations)).dump();
}

std::vector<PlannedPoint> PlanOf(const std::vector<const FamilyGrid*>& families,
                                 const std::vector<std::string>& overrides, const std::string& filter) {
  Selection selection = {
      .suite = Suite::kFull, .axes = {}, .filter = filter, .flag = "--filter", .searched = "file", .listing = "--list"};
  for (const std::string& text : overrides) {
    selection.axes.push_back(Checked(ParseAxisOverride(text, "--list"), "--axis=" + text + ": "));
  }
  return Checked(PlanPoints(families, selection));
}

}  // namespace

void BindCases(nb::module_& core) {
  nb::class_<FamilyGrid>(core, "FamilyGrid", "A family before anything is built: name, axes, points, growth")
      .def(
          "__init__",
          [](FamilyGrid* grid, const std::string& name, const std::string& doc, const std::vector<Declared>& axes,
             const std::vector<std::pair<std::string, double>>& growth) {
            new (grid) FamilyGrid(GridOf(name, doc, axes, growth));
          },
          "name"_a, "doc"_a, "axes"_a, "growth"_a,
          "axes: name, values and ranges, default, doc. ValueError: why they cannot be measured")
      .def_prop_ro("name", &FamilyGrid::name)
      .def("points", PointsOf, nb::sig("def points(self) -> list[tuple[str, dict[str, str], dict[str, str]]]"),
           "Name, values and resolved values of each registered point, the last axis fastest")
      .def(
          "at",
          [](const FamilyGrid& grid, const nb::dict& values) {
            AxisValues point;
            for (const AxisSpec& axis : grid.axes()) {
              point.emplace_back(axis.name, nb::cast<std::string>(values[axis.name.c_str()]));
            }
            return InPython(Point(grid.name(), &grid.axes(), std::move(point)));
          },
          "values"_a, nb::sig("def at(self, values: dict[str, str]) -> tuple[str, dict[str, str], dict[str, str]]"),
          "The point with these values, as points() has it")
      .def_prop_ro(
          "kinds",
          [](const FamilyGrid& grid) {
            nb::dict kinds;
            for (const AxisSpec& axis : grid.axes()) {
              kinds[nb::str(axis.name.c_str())] = nb::str(std::string(KindOf(axis)).c_str());
            }
            return kinds;
          },
          nb::sig("def kinds(self) -> dict[str, str]"), "number, decimal or choice, by axis")
      .def("describe", Describe, "As the contract has it, as JSON");

  core.def(
      "plan",
      [](const std::vector<const FamilyGrid*>& families, const std::vector<std::string>& overrides,
         const std::string& filter) {
        std::vector<nb::tuple> plan;
        for (const PlannedPoint& planned : PlanOf(families, overrides, filter)) {
          const auto index = std::ranges::find(families, planned.family) - families.begin();
          plan.push_back(nb::make_tuple(index, InPython(planned.point)));
        }
        return plan;
      },
      "families"_a, "overrides"_a, "filter"_a,
      nb::sig("def plan(families: list[FamilyGrid], overrides: list[str], filter: str)"
              " -> list[tuple[int, tuple[str, dict[str, str], dict[str, str]]]]"),
      "The points that the texts of --axis and --filter select, each with the index of its family");
  core.def(
      "list_cases",
      [](const std::vector<const FamilyGrid*>& families, const std::vector<std::string>& overrides,
         const std::string& filter, bool as_json) { return ListCases(PlanOf(families, overrides, filter), as_json); },
      "families"_a, "overrides"_a, "filter"_a, nb::kw_only(), "as_json"_a,
      "Their names, one per line, or as JSON with their axes");
}

}  // namespace roofbench::python
