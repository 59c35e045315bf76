// SPDX-License-Identifier: Apache-2.0
// The names of a case beside its own: spelled in full, and as it was called before.
#pragma once

#include <optional>
#include <string>

#include "lib/suite/family.h"
#include "lib/suite/selection.h"

namespace roofbench {

// With the values that a name leaves out because they are defaults: "gelu/impl:eager/dtype:fp32/…/cache:cold".
std::string FullName(const Point& point);

// Every axis with its value, also the defaults that the name leaves out; one that follows another axis has that one's.
AxisValues AxesOf(const Point& point);

// As the case was called before families, axes or values were renamed; nullopt if nothing of it was.
std::optional<std::string> OldName(const Family& family, const Point& point);

// The override with the axis and the values that the family has today.
AxisOverride Today(const Family& family, const AxisOverride& wanted);

// Whether `name` is the family's, now or before.
bool IsCalled(const Family& family, const std::string& name);

}  // namespace roofbench
