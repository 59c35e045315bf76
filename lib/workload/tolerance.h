// SPDX-License-Identifier: Apache-2.0
// How far a result may be from its reference in higher precision.
#pragma once

#include "lib/workload/dtype.h"

namespace roofbench::workload {

// A result may differ from the reference by tolerance · (|reference| + rms(reference)), element by element, with
//   tolerance = (2 · eps(dtype) + 4 · eps(fp32) · sqrt(reduction)) · sqrt(roundings) · amplification,
// and a result of 64 elements or more by `rms_part` of that in the root mean square, at most a quarter: a result is
// rounded to `dtype`, the error of an fp32 sum of `reduction` terms grows like a random walk, and so does that of
// `roundings` successive results. `absolute` is allowed in addition. Integer results must be equal, unless the
// reference is not rounded: then each must be its nearest integer, or next to a tie either of both.
struct Tolerance {
  Dtype dtype = Dtype::kFp32;
  double reduction = 1;      // terms in the longest sum (k of a product)
  double roundings = 1;      // results successively rounded to dtype
  double amplification = 1;  // largest growth of an error from the first of them to the last
  double absolute = 0;       // in the unit of the result
  // Of the tolerance, allowed in the root mean square: less than half where few errors are many times as large as most.
  double rms_part = 0.5;
};

// Largest allowed |result - reference| in units of |reference| + rms(reference).
double RelativeTolerance(const Tolerance& tolerance);

// A relative tolerance with room for the rounding of the reference itself, which moves the reference by `strays` in the
// same unit: three times as much, because the order of roundings differs. At most a value itself: of thousands, the
// worst is off by five times as much as the others are, whose root mean square is bounded as well.
double WithRoomForRounding(double relative, double strays);

// Fewest elements whose errors are also judged by their root mean square, and how much of the reference's that may be:
// larger effects of rounding cannot be checked.
inline constexpr double kFewestForRms = 64;
inline constexpr double kMostRms = 0.25;

}  // namespace roofbench::workload
