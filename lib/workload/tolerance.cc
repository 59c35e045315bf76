// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/tolerance.h"

#include <algorithm>
#include <cmath>

namespace roofbench::workload {
namespace {

// Sums are in fp32, those of doubles in double precision.
double EpsilonOfSums(Dtype dtype) { return std::min(Epsilon(dtype), Epsilon(Dtype::kFp32)); }

}  // namespace

double RelativeTolerance(const Tolerance& tolerance) {
  const double epsilon = Epsilon(tolerance.dtype);
  if (epsilon == 0) return 0;
  return (2 * epsilon + 4 * EpsilonOfSums(tolerance.dtype) * std::sqrt(tolerance.reduction)) *
         std::sqrt(tolerance.roundings) * tolerance.amplification;
}

double WithRoomForRounding(double relative, double strays) {
  constexpr double kOtherRoundings = 3;
  constexpr double kMost = 1;
  return std::max(relative, std::min(kOtherRoundings * strays, kMost));
}

}  // namespace roofbench::workload
