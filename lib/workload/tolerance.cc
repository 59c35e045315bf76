// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace roofbench::workload {
namespace {

// Of results that are rounded by `epsilon`, and of their sums.
double OfSums(double epsilon, double epsilon_of_sums, double reduction) {
  return 2 * epsilon + 4 * epsilon_of_sums * std::sqrt(reduction);
}

}  // namespace

double RelativeTolerance(const Tolerance& tolerance) {
  const double epsilon = Epsilon(tolerance.dtype);
  if (epsilon == 0) return 0;
  return OfSums(epsilon, Epsilon(Dtype::kFp32), tolerance.reduction) * std::sqrt(tolerance.roundings) *
         tolerance.amplification;
}

double RelativeToleranceOfDoubles(double reduction) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return OfSums(kEpsilon, kEpsilon, reduction);
}

double WithRoomForRounding(double relative, double strays) {
  constexpr double kOtherRoundings = 3;
  constexpr double kMost = 0.5;
  return std::max(relative, std::min(kOtherRoundings * strays, kMost));
}

}  // namespace roofbench::workload
