// SPDX-License-Identifier: Apache-2.0
// A family with a choice and a size.
#pragma once

#include <string>
#include <utility>

#include "lib/cases/family_grid.h"

namespace roofbench {

inline FamilyGrid SmallGrid(std::string name) {
  const AxisSpec impl = {.name = "impl", .choices = {"good", "wrong"}, .default_value = "good"};
  return FamilyGrid({.name = std::move(name),
                     .doc = "adds one",
                     .axes = WithCacheAxis({{.name = "n"}, impl}, kCold),
                     .grids = {{Suite::kQuick, {{"n", {16, 32, 64}}}}, {Suite::kFull, {{"n", {4096}}}}},
                     .growth = {{"n", 1}}});
}

}  // namespace roofbench
