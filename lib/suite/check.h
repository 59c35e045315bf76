// SPDX-License-Identifier: Apache-2.0
// Holds what a step computed against the same in higher precision: a fast wrong case is an error, not a number.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "absl/status/status.h"
#include "lib/suite/case.h"

namespace roofbench {

// Largest allowed |result - reference| in units of |reference| + rms(reference).
double RelativeTolerance(const Tolerance& tolerance);

// DataLoss with the worst element's place and values if `result` strays from `reference`, differs in shape, or holds a
// NaN or an infinity where the reference has none. `what` names the result in the message.
absl::Status CompareTensors(const at::Tensor& result, const at::Tensor& reference, const Tolerance& tolerance,
                            const std::string& what);

// DataLoss if a row of `whole` holds a NaN or an infinity, or, where `sums` is defined, does not add up to its sum
// within tolerance · (|sum| + Euclidean norm of the row): errors of a row's elements add up like a random walk.
absl::Status CheckRowSums(const at::Tensor& whole, const at::Tensor& sums, const Tolerance& tolerance,
                          const std::string& what);

// Spoils what a case computed before it is compared: the way in which tests prove that the check of a family can fail.
struct Tamper {
  std::function<void(at::Tensor&)> result = {};
  std::function<void(at::Tensor&)> whole = {};  // after the samples were taken
};

// Compares each result of the case with its reference, then all that was computed with its sums. Call it after one
// step.
absl::Status CheckCase(const Case& built, const Tamper& tamper = {});

}  // namespace roofbench
