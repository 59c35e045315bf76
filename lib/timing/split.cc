// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/split.h"

#include <algorithm>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench::timing {

std::optional<Split> FindSplit(std::span<const double> values) {
  constexpr std::size_t kFewest = 4;
  constexpr double kLeastGap = 0.1;    // of the value below it
  constexpr double kGapOverGroup = 3;  // a gap that groups of this width do not make by themselves
  if (values.size() < kFewest) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::size_t upper = 1;  // where the slow group begins
  for (std::size_t i = 2; i < sorted.size(); ++i) {
    if (sorted[i] - sorted[i - 1] > sorted[upper] - sorted[upper - 1]) upper = i;
  }
  const std::span<const double> fast(sorted.data(), upper);
  const std::span<const double> slow(sorted.data() + upper, sorted.size() - upper);
  const double gap = slow.front() - fast.back();
  const double widest = std::max(fast.back() - fast.front(), slow.back() - slow.front());
  if (gap < kLeastGap * fast.back() || gap < kGapOverGroup * widest) return std::nullopt;
  return Split{fast.size(), slow.size(), Median(fast), Median(slow)};
}

}  // namespace roofbench::timing
