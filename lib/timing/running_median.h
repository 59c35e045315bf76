// SPDX-License-Identifier: Apache-2.0
// The median of values that arrive in chunks, and its confidence interval, without sorting them anew each time.
#pragma once

#include <span>
#include <vector>

namespace roofbench::timing {

class RunningMedian {
 public:
  // `ascending` must be sorted. Linear in all the values added so far.
  void Add(std::span<const double> ascending);

  // Half the width of the median's 95 % interval over the median; infinity before the first value.
  double RelativeHalfWidth() const;

 private:
  std::vector<double> sorted_;
  std::vector<double> merged_;  // kept for its memory
};

}  // namespace roofbench::timing
