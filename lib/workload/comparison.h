// SPDX-License-Identifier: Apache-2.0
// Compares a result with its reference, both in double precision, one block after another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace roofbench::workload {

// The sum of the squares of the finite values.
double FiniteSquares(std::span<const double> values);

// Finds out in one pass over both whether they match, which is the usual outcome; Comparison needs to know the squares
// of the whole reference before its first block, and says what is wrong.
class Match {
 public:
  // As Comparison.
  explicit Match(double relative, double absolute = 0, double rms_part = 0.5)
      : relative_(relative), absolute_(absolute), rms_part_(rms_part) {}

  // The next elements of both.
  void Add(std::span<const double> actual, std::span<const double> expected);
  // Whether Comparison would find nothing in the elements so far; false as well where one of them is not finite.
  bool IsSure() const;
  // The share of the numbers other than 0 that are so small beside the rest that zeros in their place would match: to
  // within a factor of two of the largest such number. Of many, only every 61st is looked at.
  double UnseenShare() const;

 private:
  const double relative_;
  const double absolute_;
  const double rms_part_;
  int64_t elements_ = 0;
  double squares_ = 0;                        // of the reference
  double error_squares_ = 0;                  // of the errors
  double excess_ = 0;                         // largest error beyond `relative` times its own reference
  std::array<int64_t, 2048> exponents_ = {};  // of the finite elements of the reference: about how many have each
};

class Comparison {
 public:
  // `relative`: as RelativeTolerance. `squares`: FiniteSquares of the whole reference of `elements`. `absolute`:
  // allowed in addition, in the unit of the elements, as of values that are rounded to multiples of twice as much.
  // `rms_part`: of `relative`, allowed of all elements in the root mean square.
  Comparison(double relative, double squares, int64_t elements, double absolute = 0, double rms_part = 0.5);

  // The next elements of both.
  void Add(std::span<const double> actual, std::span<const double> expected);

  struct Mismatch {
    std::string text;           // "wrong result: off in 3 of 64 elements, the worst …"
    double relative_error = 0;  // of the worst element, or of all in the root mean square
  };
  // nullopt if the elements so far match. An infinite or NaN reference requires a result of the same kind. `what` names
  // the result.
  std::optional<Mismatch> Find(const std::string& what) const;

 private:
  const double relative_;
  const double absolute_;
  const double rms_part_;
  const double rms_;  // of the reference
  const int64_t elements_;
  int64_t added_ = 0;
  int64_t wrong_ = 0;
  int64_t worst_ = 0;  // index of the element that exceeds its bound most
  double worst_excess_ = -1;
  double worst_actual_ = 0;
  double worst_expected_ = 0;
  double squares_ = 0;  // of the errors
};

}  // namespace roofbench::workload
