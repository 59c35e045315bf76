// SPDX-License-Identifier: Apache-2.0
// Compares the result of a step with a reference in higher precision: a fast wrong case is an error, not a number.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/suite/case.h"

namespace roofbench {

// Returns DataLoss with the worst element's index and values if `result` deviates from `reference`, differs in shape,
// or has a NaN or an infinity where the reference does not. `what` names the result in the message. Raises `unseen` to
// Match::UnseenShare.
absl::Status CompareTensors(const at::Tensor& result, const at::Tensor& reference, const Tolerance& tolerance,
                            const std::string& what, double* unseen = nullptr);

// Returns DataLoss if a row of `whole` has a NaN or an infinity, or, if `sums` is defined, differs from its sum by more
// than tolerance · (|sum| + Euclidean norm of the row): errors of a row's elements add up like a random walk.
absl::Status CheckRowSums(const at::Tensor& whole, const at::Tensor& sums, const Tolerance& tolerance,
                          const std::string& what);

// The sum of each row of [..., n] in double precision, on the device of `x`. Needs no second copy of it, as at::sum
// does.
at::Tensor ExactRowSums(const at::Tensor& x);

// Corrupts results before they are compared, so that tests can prove that the check of a family can fail.
struct Tamper {
  std::function<void(at::Tensor&)> result = {};
  std::function<void(at::Tensor&)> whole = {};  // after the samples were taken
};

// Compares each result of the case with its reference, then the whole result with its sums. Call it after one step.
// `unseen`: becomes the largest Match::UnseenShare of the results.
absl::Status CheckCase(const Case& built, const Tamper& tamper = {}, double* unseen = nullptr);

// Whether the tensor lies, in part or whole, in the memory of one of the others.
bool SharesMemory(const at::Tensor& tensor, const std::vector<at::Tensor>& others);

// Some elements of operands at one moment, to see whether steps change what they should only read: the reference is
// computed afterwards, from what they have left.
class OperandSample {
 public:
  OperandSample() = default;
  OperandSample(const std::vector<at::Tensor>& operands, std::mt19937_64& random);
  // DataLoss with the first operand that has changed since then.
  absl::Status CheckUnchanged() const;
  // Forgets those that share memory with one of `others`.
  void Leave(const std::vector<at::Tensor>& others);

 private:
  struct Elements {
    at::Tensor operand;
    std::vector<int64_t> places;
    std::string bytes;
  };

  std::vector<Elements> elements_;
};

// Case::keeps_operands of an object of `size` bytes that holds `operands`.
std::function<absl::Status()> KeepsOperands(std::shared_ptr<const void> object, std::size_t size,
                                            const std::vector<at::Tensor>& operands);

// Case::changing of those floating-point operands that are no part of what the result of `built` lies in.
std::function<std::vector<at::Tensor>()> ReadOnly(std::vector<at::Tensor> operands, const Case& built);

// Makes every element wrong.
void Invalidate(const std::vector<at::Tensor>& tensors);

// The memory that a step leaves its result in: the results themselves, unless they hold samples only.
std::vector<at::Tensor> WholeResult(const Case& built);

// A few rows of the memory in which a step leaves its result, drawn anew for each object.
class SomeRows {
 public:
  SomeRows() = default;
  // `built` outlives it.
  SomeRows(const Case& built, std::mt19937_64& random);
  // These rows of each result.
  SomeRows(const Case& built, const std::vector<RowRange>& rows);

  // Makes these rows wrong, with all others unless they are many.
  void Invalidate() const;
  // Compares them with their reference. Where they have none of their own, looks whether the step since then has
  // overwritten what Invalidate left.
  absl::Status Check() const;

 private:
  const Case* built_ = nullptr;
  std::vector<std::vector<RowRange>> ranges_;  // of each tensor
};

// Whether a part of the result has a reference of its own.
bool CanCheckPart(const Case& built);
// Of the last step: compares some rows, or the results that hold samples, without the sums of the whole.
absl::Status CheckPart(const Case& built, std::mt19937_64& random);

}  // namespace roofbench
