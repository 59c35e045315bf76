// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/point.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/suite/shared_axes.h"

namespace roofbench {
namespace {

const AxisSpec* FindAxis(const std::vector<AxisSpec>& axes, std::string_view name) {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const AxisSpec& axis) { return axis.name == name; });
  return it == axes.end() ? nullptr : &*it;
}

}  // namespace

Point::Point(std::string family, const std::vector<AxisSpec>* axes, AxisValues values)
    : family_(std::move(family)), axes_(axes), values_(std::move(values)) {}

bool Point::Has(std::string_view axis) const { return FindAxis(*axes_, axis) != nullptr; }

const std::string& Point::Text(std::string_view axis) const {
  for (const auto& [name, value] : values_) {
    if (name != axis) continue;
    // "k has the value n" means: as large as the axis n.
    return value != axis && Has(value) ? Text(value) : value;
  }
  throw std::logic_error(absl::StrCat("family ", family_, " has no axis ", std::string(axis)));
}

double Point::Number(std::string_view axis) const {
  int64_t value = 0;
  if (!absl::SimpleAtoi(Text(axis), &value)) {
    throw std::logic_error(absl::StrCat("axis ", std::string(axis), " of family ", family_, " is not a number"));
  }
  return static_cast<double>(value);
}

workload::Dtype Point::Dtype() const {
  const auto dtype = workload::ParseDtype(Text(kDtypeAxis));
  if (!dtype) throw std::logic_error(absl::StrCat(Text(kDtypeAxis), " is not a precision"));
  return *dtype;
}

bool Point::IsCold() const { return Text(kCacheAxis) == kCold; }

std::string Point::Name() const {
  std::string name = family_;
  for (const auto& [axis, value] : values_) {
    const AxisSpec* spec = FindAxis(*axes_, axis);
    if (spec->default_value.empty() || value != spec->default_value) absl::StrAppend(&name, "/", axis, ":", value);
  }
  return name;
}

Point Point::With(std::string_view axis, std::string value) const {
  Point changed = *this;
  for (auto& [name, current] : changed.values_) {
    if (name == axis) current = value;
  }
  return changed;
}

bool ValidValue(const AxisSpec& axis, const std::vector<AxisSpec>& axes, std::string_view value) {
  if (!axis.choices.empty()) {
    return std::find(axis.choices.begin(), axis.choices.end(), value) != axis.choices.end();
  }
  if (value == axis.default_value && FindAxis(axes, value) != nullptr) return true;
  int64_t number = 0;
  // 2^40: far above every size that fits a machine, far below where products of three sizes overflow a double's
  // exactness.
  constexpr int64_t kLargest = int64_t{1} << 40;
  return absl::SimpleAtoi(absl::string_view(value.data(), value.size()), &number) && number >= 1 &&
         number <= kLargest && value.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace roofbench
