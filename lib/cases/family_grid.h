// SPDX-License-Identifier: Apache-2.0
// What a family says before anything is built: its name, its axes, and the points at which it is measured. A family of
// the program adds work and implementations (lib/suite/family.h), one in Python a function.
#pragma once

#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/cases/point.h"

namespace roofbench {

// Share of a family that a run takes. Each of the first three contains the previous one. Beside them stand the ceilings
// that a machine sets to all other cases, few of them or all.
enum class Suite { kQuick, kStandard, kFull, kMachineQuick, kMachine };
std::string_view Name(Suite suite);  // "quick", "standard", "full", "machine_quick", "machine"

// The time of a step is expected to grow as axis^exponent with the other axes fixed.
struct ExpectedGrowth {
  std::string axis;
  double exponent;
};

// Values by axis; axes with a default may be omitted. The points are the product of the lists.
class AxisList {
 public:
  AxisList(std::initializer_list<AxisValue> values);  // NOLINT(google-explicit-constructor)
  AxisList(std::vector<std::string> values)           // NOLINT(google-explicit-constructor)
      : texts_(std::move(values)) {}
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};
using GridAxes = std::vector<std::pair<std::string, AxisList>>;

struct GridParts {
  std::string name;
  std::string doc = {};
  std::vector<AxisSpec> axes = {};
  std::vector<std::pair<Suite, GridAxes>> grids = {};  // each is also of every suite that contains it
  std::vector<ExpectedGrowth> growth = {};
};

// The axes in the order of names: `impl` first, then the others in theirs, then `cache`, which every family has.
std::vector<AxisSpec> WithCacheAxis(std::vector<AxisSpec> axes, std::string default_cache);

class FamilyGrid {
 public:
  explicit FamilyGrid(GridParts parts);

  const std::string& name() const { return parts_.name; }
  const std::string& doc() const { return parts_.doc; }
  const std::vector<AxisSpec>& axes() const { return *axes_; }
  // nullptr if there is no such axis.
  const AxisSpec* FindAxis(std::string_view name) const;
  const std::vector<ExpectedGrowth>& growth() const { return parts_.growth; }

  // The registered points of `suite`, or of all suites, each once, in the order of the grids.
  std::vector<Point> Points(std::optional<Suite> suite = {}) const;

  // Reason why these points cannot be registered ("it has no points"); empty if there is none.
  std::string Problem() const;

 private:
  GridParts parts_;  // without the axes
  // Shared with every point, so that the address survives a move of the family.
  std::shared_ptr<const std::vector<AxisSpec>> axes_;
};

// {"name", "doc", "cache_default", "axes": […], "implementations": …, "growth": […]}: docs/contract.md describes the
// fields.
nlohmann::ordered_json DescribeGrid(const FamilyGrid& family, nlohmann::ordered_json implementations);

// The kind of an axis in that description: "number" (a whole one), "decimal", "choice", "choices" (several).
std::string_view KindOf(const AxisSpec& axis);

// The values of an axis in the points, in order, each once.
std::vector<std::string> ValuesIn(const std::vector<Point>& points, std::string_view axis);

}  // namespace roofbench
