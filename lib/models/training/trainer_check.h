// SPDX-License-Identifier: Apache-2.0
// What proves a training step right: its own arithmetic on some of its batch, against double precision.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lib/models/training/trainer.h"
#include "lib/workload/models/transformer.h"

namespace roofbench::models {

// Runs the trainer's own code beside its steps and leaves parameters, gradients and optimizer state as they were.
// The results are, in this order:
//   the loss of the checked sequences;
//   without backward: the logits of their last tokens; with it: the gradients by the embedding (the rows that occur),
//   the first and the last block, the final norm and the head; with an optimizer: what two updates make of a norm and
//   of a matrix.
class TrainerCheck {
 public:
  struct Options {
    // Sequences of the batch that are checked; a gradient in double precision costs several steps.
    int64_t sequences = 1;
    // What the timed step does: forward records gradients where that does.
    workload::TrainingMode mode = workload::TrainingMode::kForwardBackward;
    MakeOptimizer make_optimizer = nullptr;
    bool has_moments = true;  // AdamW; false: SGD
    OptimizerSettings settings = {};
    // Of the reference: double, or fp32 where the step computes in bf16.
    at::ScalarType reference_type = at::kDouble;
  };

  // `trainer` must outlive the check.
  TrainerCheck(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets, const Options& options);

  std::vector<at::Tensor> Result();
  std::vector<at::Tensor> Reference() const;

 private:
  std::vector<at::Tensor> OptimizedCopies() const;

  Trainer& trainer_;
  const at::Tensor tokens_;
  const at::Tensor targets_;
  const Options options_;
  const OptimizerSettings settings_;  // for trying the optimizer
  at::Tensor rows_;                   // of the embedding, those that the checked tokens name
  std::vector<at::Tensor> updated_;   // parameters that the optimizer is tried on
};

}  // namespace roofbench::models
