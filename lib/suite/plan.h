// SPDX-License-Identifier: Apache-2.0
// Chooses the cases of a run: suite, axis overrides, filter.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/suite/family.h"
#include "lib/suite/selection.h"

namespace roofbench {

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
