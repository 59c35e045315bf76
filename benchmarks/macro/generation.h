// A generation as a case: reads a prompt and chooses tokens one after another, each from the logits that the last one
// led to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "benchmarks/macro/language_model.h"

namespace roofbench {

// A text that goes on until the model ends it.
struct Completion {
  at::Tensor prompt;              // ids [1, tokens]
  std::vector<int64_t> stop_ids;  // a generation ends with the first of these
  // Called after the samples with the ids that were chosen, the one that ended it included.
  std::function<absl::Status(const std::vector<int64_t>&)> take;
};

// `at` is a point of the family generate. Without a completion the prompt is random and nothing ends before the number
// of new tokens, so that the work is known.
absl::StatusOr<Case> BuildGeneration(const Point& at, Inputs& in,
                                     const std::optional<Completion>& completion = std::nullopt);

// A point of the family generate, for families that are others of its points.
Point GenerationPoint();

}  // namespace roofbench
