// SPDX-License-Identifier: Apache-2.0
// The user's selection: a suite, values that replace registered ones, and a filter.
#pragma once

#include <string>
#include <vector>

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

}  // namespace roofbench
