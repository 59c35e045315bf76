// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/running_median.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lib/timing/statistics.h"

namespace roofbench::timing {

void RunningMedian::Add(std::span<const double> ascending) {
  merged_.resize(sorted_.size() + ascending.size());
  std::merge(sorted_.begin(), sorted_.end(), ascending.begin(), ascending.end(), merged_.begin());
  std::swap(sorted_, merged_);
}

double RunningMedian::RelativeHalfWidth() const {
  if (sorted_.empty()) return std::numeric_limits<double>::infinity();
  const MedianRanks ranks = MedianIntervalRanks(sorted_.size());
  const double median = std::midpoint(sorted_[(sorted_.size() - 1) / 2], sorted_[sorted_.size() / 2]);
  return timing::RelativeHalfWidth({.low = sorted_[ranks.low], .high = sorted_[ranks.high]}, median);
}

}  // namespace roofbench::timing
