// SPDX-License-Identifier: Apache-2.0
// Whether values fall into two groups with nothing between them, as times do where a program is in one of two states.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace roofbench::timing {

struct Split {
  std::size_t fast = 0;  // values in the lower group
  std::size_t slow = 0;
  double fast_median = 0;
  double slow_median = 0;
};

// The two groups on either side of the widest gap, if that is a tenth of the value below it or more, and three times as
// wide as either group; tools/roofreport/stats/split.py has the same rule. nullopt for fewer than four values.
std::optional<Split> FindSplit(std::span<const double> values);

}  // namespace roofbench::timing
