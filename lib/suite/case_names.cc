// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/case_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

const Rename* RenameOf(const Family& family, const std::string& axis) {
  for (const Rename& rename : family.renames()) {
    if (!rename.axis.empty() && rename.axis == axis) return &rename;
  }
  return nullptr;
}

const AxisSpec& SpecOf(const Point& point, const std::string& axis) {
  return *std::find_if(point.axes().begin(), point.axes().end(),
                       [&](const AxisSpec& spec) { return spec.name == axis; });
}

}  // namespace

std::string FullName(const Point& point) {
  std::string name = point.family();
  for (const auto& [axis, value] : point.values()) absl::StrAppend(&name, "/", axis, ":", value);
  return name;
}

AxisValues AxesOf(const Point& point) {
  AxisValues values;
  for (const AxisSpec& axis : point.axes()) values.emplace_back(axis.name, point.Text(axis.name));
  return values;
}

std::optional<std::string> OldName(const Family& family, const Point& point) {
  if (family.renames().empty()) return std::nullopt;
  std::string name = family.name();
  for (const Rename& rename : family.renames()) {
    if (!rename.old_family.empty()) name = rename.old_family;
  }
  for (const auto& [axis, value] : point.values()) {
    if (value == SpecOf(point, axis).default_value) continue;
    const Rename* rename = RenameOf(family, axis);
    if (rename == nullptr) {
      absl::StrAppend(&name, "/", axis, ":", value);
    } else {
      absl::StrAppend(&name, "/", rename->old_axis, ":", rename->Before(value));
    }
  }
  return name == point.Name() ? std::nullopt : std::optional(name);
}

AxisOverride Today(const Family& family, const AxisOverride& wanted) {
  AxisOverride today = wanted;
  for (const Rename& rename : family.renames()) {
    if (rename.axis.empty() || (wanted.axis != rename.old_axis && wanted.axis != rename.axis)) continue;
    today.axis = rename.axis;
    for (std::string& value : today.values) value = rename.Today(value);
  }
  return today;
}

bool IsCalled(const Family& family, const std::string& name) {
  return family.name() == name || std::any_of(family.renames().begin(), family.renames().end(),
                                              [&](const Rename& rename) { return rename.old_family == name; });
}

}  // namespace roofbench
