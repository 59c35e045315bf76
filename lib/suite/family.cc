// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/suite/shared_axes.h"

namespace roofbench {
namespace {

std::vector<Family>& MutableFamilies() {
  static auto* families = new std::vector<Family>();
  return *families;
}

[[noreturn]] void Refuse(const Family& family, const std::string& reason) {
  std::fprintf(stderr, "roofbench: family '%s' cannot be registered: %s\n", family.name().c_str(), reason.c_str());
  std::exit(EXIT_FAILURE);
}

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

}  // namespace

std::string_view Name(Suite suite) {
  constexpr std::string_view kNames[] = {"quick", "standard", "full"};
  return kNames[static_cast<int>(suite)];
}

AxisList::AxisList(std::initializer_list<AxisValue> values) {
  for (const AxisValue& value : values) texts_.push_back(value.text);
}

Family::Family(std::string name, std::string doc)
    : name_(std::move(name)),
      doc_(std::move(doc)),
      axes_(std::make_shared<std::vector<AxisSpec>>(
          std::vector<AxisSpec>{SharedAxis(kCacheAxis, {kCold, kWarm}, kCold)})) {}

Family& Family::Axis(AxisSpec axis) {
  axes_->insert(axes_->end() - 1, std::move(axis));  // `cache` stays last
  return *this;
}

Family& Family::DefaultCache(std::string value) {
  axes_->back().default_value = std::move(value);
  return *this;
}

Family& Family::Grid(Suite suite, GridAxes axes) {
  grids_.emplace_back(suite, std::move(axes));
  return *this;
}

Family& Family::LongSteps(double seconds) {
  long_step_ = seconds;
  return *this;
}

Family& Family::PredictAs(PointFunction other) {
  predict_as_ = std::move(other);
  return *this;
}

Family& Family::ExpectGrowth(std::string axis, double exponent) {
  growth_.push_back({std::move(axis), exponent});
  return *this;
}

Family& Family::Cost(CostFunction cost) {
  cost_ = std::move(cost);
  return *this;
}

Family& Family::Supports(SupportFunction supports) {
  supports_ = std::move(supports);
  return *this;
}

Family& Family::Build(BuildFunction build) {
  build_ = std::move(build);
  return *this;
}

Family& Family::Implementations(std::vector<Implementation> implementations, const std::string& default_name) {
  implementations_ = std::move(implementations);
  if (implementations_.size() < 2) return *this;
  std::vector<std::string> names;
  for (const Implementation& one : implementations_) names.push_back(one.name);
  axes_->insert(axes_->begin(), SharedAxis(kImplAxis, std::move(names), default_name));
  return *this;
}

const Implementation* Family::ImplementationOf(const Point& point) const {
  for (const Implementation& one : implementations_) {
    if (!point.Has(kImplAxis) || point.Text(kImplAxis) == one.name) return &one;
  }
  return nullptr;
}

absl::Status Family::SupportOf(const Point& point, const Device& device) const {
  return supports_ ? supports_(point, device) : absl::OkStatus();
}

std::string Family::Problem() const {
  if (grids_.empty()) return "it has no Grid";
  if (!cost_ || !build_) return "it needs both Cost and Build";
  const auto find = [&](const std::string& name) {
    return std::find_if(axes_->begin(), axes_->end(), [&](const AxisSpec& axis) { return axis.name == name; });
  };
  for (const auto& [suite, grid] : grids_) {
    for (const auto& [name, list] : grid) {
      if (find(name) == axes_->end()) return absl::StrCat("a Grid names the axis '", name, "', which it has not");
    }
  }
  for (const Point& point : Points(Suite::kFull)) {
    for (const auto& [name, value] : point.values()) {
      const AxisSpec& axis = *find(name);
      if (ValidValue(axis, *axes_, value)) continue;
      return absl::StrCat("'", value, "' is no value of its axis ", name, " (", ExpectedValues(axis), ")");
    }
  }
  return {};
}

std::vector<Point> Family::Points(Suite suite) const {
  std::vector<Point> points;
  std::set<std::string> seen;
  for (const auto& [from, grid] : grids_) {
    if (from > suite) continue;
    for (AxisValues& values : Product(*axes_, grid)) {
      Point point(name_, axes_.get(), std::move(values));
      if (seen.insert(point.Name()).second) points.push_back(std::move(point));
    }
  }
  return points;
}

Registration::Registration(Family family) {
  for (const Family& other : MutableFamilies()) {
    if (other.name() == family.name()) Refuse(family, "the name is taken");
  }
  const std::string problem = family.Problem();
  if (!problem.empty()) Refuse(family, problem);
  auto& families = MutableFamilies();
  families.insert(std::upper_bound(families.begin(), families.end(), family,
                                   [](const Family& a, const Family& b) { return a.name() < b.name(); }),
                  std::move(family));
}

const std::vector<Family>& Families() { return MutableFamilies(); }

const Family& FamilyNamed(const std::string& name) {
  for (const Family& family : MutableFamilies()) {
    if (family.name() == name) return family;
  }
  throw std::logic_error("no family is called " + name);
}

}  // namespace roofbench
