// SPDX-License-Identifier: Apache-2.0
// Chooses the cases of a run by the user's selection: suite, axis overrides, filter.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/suite/family.h"

namespace roofbench {

// One --axis=[family.]name=v1,v2,…
struct AxisOverride {
  std::string family = {};  // empty: every family that has the axis
  std::string axis;
  std::vector<std::string> values;
};

struct Selection {
  Suite suite = Suite::kQuick;
  std::vector<AxisOverride> axes;
  std::string filter;  // a regular expression on names; empty: everything
};

struct PlannedCase {
  const Family* family;
  Point point;
  std::string name;  // point.Name()
};

// The selected cases in execution order. Overridden axes replace values in every point of the suite; each name occurs
// once. InvalidArgument for an unknown family, axis or value, an invalid filter, or no match; the message lists valid
// values.
absl::StatusOr<std::vector<PlannedCase>> MakePlan(const std::vector<Family>& families, const Selection& selection);

}  // namespace roofbench
