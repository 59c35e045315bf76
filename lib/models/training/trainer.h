// SPDX-License-Identifier: Apache-2.0
// The training step of a transformer in its three phases, its check in double precision, and repeated runs of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/models/training/optimizer.h"
#include "lib/models/training/transformer_model.h"
#include "lib/workload/models/transformer.h"

namespace roofbench::models {

class Trainer {
 public:
  // `optimizer` may be null if no step is taken; `autocast`: products in bf16 of fp32 parameters.
  Trainer(TransformerModel model, std::unique_ptr<Optimizer> optimizer, bool autocast);

  // Takes the place of the model's operations without gradients: (tokens, targets) -> the loss and the logits of each
  // sequence's last token [batch, 1, vocab].
  using Inference = std::function<std::vector<at::Tensor>(const at::Tensor& tokens, const at::Tensor& targets)>;
  void SetInference(Inference inference) { inference_ = std::move(inference); }

  // The loss; if gradients are enabled, Backward may follow.
  at::Tensor Forward(const at::Tensor& tokens, const at::Tensor& targets);
  // The logits alone, or those of the last tokens, in the same precision.
  at::Tensor Logits(const at::Tensor& tokens);
  // Leaves gradients in the parameters.
  void Backward(const at::Tensor& loss);
  // Updates the parameters and removes their gradients.
  void Optimize();
  void ForgetGradients();

  const TransformerModel& model() const { return model_; }
  Optimizer* optimizer() const { return optimizer_.get(); }
  double GradientBytes() const;

 private:
  TransformerModel model_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  const bool autocast_;
  Inference inference_ = nullptr;
};

// Checks a training step on part of its batch against double precision. It runs the trainer's own code, and leaves
// parameters, gradients and optimizer state unchanged.
// The results are, in this order:
//   the loss of the checked sequences;
//   without backward: the logits of their last tokens; with backward: the gradients of the embedding (rows that
//   occur), the first and the last block, the final norm and the head; with an optimizer: a norm and a matrix after two
//   updates.
class TrainerCheck {
 public:
  struct Options {
    // Number of sequences to check; a gradient in double precision takes as long as several steps.
    int64_t sequences = 1;
    // The mode of the timed step: kForward records gradients.
    workload::TrainingMode mode = workload::TrainingMode::kForwardBackward;
    MakeOptimizer make_optimizer = nullptr;
    bool has_moments = true;  // AdamW; false: SGD
    OptimizerSettings settings = {};
    // Precision of the reference: double, or fp32 if the step computes in bf16.
    at::ScalarType reference_type = at::kDouble;
  };

  // `trainer` must outlive the check.
  TrainerCheck(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets, const Options& options);

  std::vector<at::Tensor> Result();
  std::vector<at::Tensor> Reference() const;

 private:
  // Keeps the rows of the embedding's gradient that the tokens use, and judges those of the head that are targets apart
  // from the others, which are far smaller.
  void SplitRows(std::vector<at::Tensor>& gradients) const;
  std::vector<at::Tensor> OptimizedCopies() const;

  Trainer& trainer_;
  const at::Tensor tokens_;
  const at::Tensor targets_;
  const Options options_;
  const OptimizerSettings settings_;  // of the tried optimizer
  at::Tensor rows_;                   // of the embedding, used by the checked tokens
  at::Tensor targeted_, others_;      // rows of the head
  std::vector<at::Tensor> updated_;   // parameters of the tried optimizer
};

enum class TrainingPhase { kForward, kBackward, kOptimizer };

// Repeats a training step, or its first passes, on the same batch.
class TrainingRun {
 public:
  // Tokens and targets [batch, context]. `check.mode` selects the passes of a step.
  TrainingRun(Trainer trainer, at::Tensor tokens, at::Tensor targets, const TrainerCheck::Options& check);

  // Calls `end` after each phase, which is a profiler range. Activations live until the end of the step.
  void Step(const std::function<void(TrainingPhase)>& end);

  Trainer& trainer() { return *trainer_; }
  const at::Tensor& tokens() const { return tokens_; }
  const at::Tensor& targets() const { return targets_; }
  at::Device device() const { return tokens_.device(); }
  TrainerCheck Check() const { return {*trainer_, tokens_, targets_, check_}; }

  // The last step's.
  const at::Tensor& loss() const { return loss_; }
  // All that a step updates in place: parameters and the optimizer's state; empty without an optimizer.
  std::vector<at::Tensor> Updated() const;

  // Bytes of tensors. Gradients: in the first step. Activations: left by forward in the last step inside a scope of
  // observe::PeakMemory.
  double ParameterBytes() const;
  double GradientBytes() const { return gradient_bytes_; }
  double OptimizerBytes() const;
  double ActivationBytes() const { return activation_bytes_; }
  // Of the last step.
  const LayerProducts::Counts& products() const { return products_; }

 private:
  at::Tensor Forward();

  std::unique_ptr<Trainer> trainer_;
  at::Tensor tokens_;
  at::Tensor targets_;
  TrainerCheck::Options check_;
  at::Tensor loss_;
  double gradient_bytes_ = 0;
  double activation_bytes_ = 0;
  LayerProducts::Counts products_;
};

}  // namespace roofbench::models
