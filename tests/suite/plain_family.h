// SPDX-License-Identifier: Apache-2.0
// A family for tests of what runs it: its cases are built by one function, without FamilyOf.
#pragma once

#include <string>
#include <utility>

#include "lib/suite/family.h"

namespace roofbench {

struct PlainFamily : FamilyParts {
  PlainFamily(std::string its_name, std::string its_doc) {
    name = std::move(its_name);
    doc = std::move(its_doc);
  }

  PlainFamily& Axis(AxisSpec axis) { return axes.push_back(std::move(axis)), *this; }
  PlainFamily& DefaultCache(std::string value) { return default_cache = std::move(value), *this; }
  PlainFamily& Grid(Suite suite, GridAxes values) { return grids.emplace_back(suite, std::move(values)), *this; }
  PlainFamily& PredictAs(PointFunction other) { return predict_as = std::move(other), *this; }
  PlainFamily& Cost(decltype(FamilyParts::cost) function) { return cost = std::move(function), *this; }
  PlainFamily& Build(decltype(FamilyParts::build) function) { return build = std::move(function), *this; }
};

}  // namespace roofbench
