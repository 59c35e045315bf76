// SPDX-License-Identifier: Apache-2.0
// A training step, or the first of its passes, again and again on the same batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "lib/models/training/trainer.h"
#include "lib/models/training/trainer_check.h"
#include "lib/workload/models/transformer.h"

namespace roofbench::models {

enum class TrainingPhase { kForward, kBackward, kOptimizer };

class TrainingRun {
 public:
  // Tokens and targets [batch, context]. `check.mode` says how far a step goes.
  TrainingRun(Trainer trainer, at::Tensor tokens, at::Tensor targets, const TrainerCheck::Options& check);

  // `end` is told of each phase's end. What forward recorded lives until the step's. Each phase is a range for
  // profilers.
  void Step(const std::function<void(TrainingPhase)>& end);

  at::Device device() const { return tokens_.device(); }
  TrainerCheck Check() const { return {*trainer_, tokens_, targets_, check_}; }

  // Bytes of tensors: gradients, those of the first step; activations, what forward left in the last step that ran in a
  // scope of observe::PeakMemory.
  double ParameterBytes() const;
  double GradientBytes() const { return gradient_bytes_; }
  double OptimizerBytes() const { return trainer_->optimizer()->StateBytes(); }
  double ActivationBytes() const { return activation_bytes_; }

 private:
  at::Tensor Forward();

  std::unique_ptr<Trainer> trainer_;
  at::Tensor tokens_;
  at::Tensor targets_;
  TrainerCheck::Options check_;
  double gradient_bytes_ = 0;
  double activation_bytes_ = 0;
};

}  // namespace roofbench::models
