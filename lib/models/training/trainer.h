// SPDX-License-Identifier: Apache-2.0
// The training step of a transformer in its three phases, and the same in double precision for checks.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "lib/models/training/optimizer.h"
#include "lib/models/training/transformer_model.h"

namespace roofbench::models {

class Trainer {
 public:
  // `optimizer` may be null where no step is taken; `autocast`: products in bf16 over fp32 parameters.
  Trainer(TransformerModel model, std::unique_ptr<Optimizer> optimizer, bool autocast);

  // The loss; with gradients enabled it can be followed by Backward.
  at::Tensor Forward(const at::Tensor& tokens, const at::Tensor& targets);
  // The logits alone, in the same precision.
  at::Tensor Logits(const at::Tensor& tokens);
  // Leaves gradients in the parameters.
  void Backward(const at::Tensor& loss);
  // Updates the parameters, and sets their gradients to none.
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
};

// The same with LibTorch's operations.
TransformerContext OnLibTorch(TransformerContext context);

// The loss of a batch and its gradients by some parameters.
struct LossAndGradients {
  at::Tensor loss;
  // By the embedding, the first block, the last block (unless it is the first), the final norm and the head.
  std::vector<at::Tensor> gradients;
};

// Of `trainer`'s own operations in its own precision. Gradients are none before and after.
LossAndGradients OwnGradients(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets);

// Of LibTorch's operations in precision `type`. Blocks run one at a time, forward and again for backward, so that one
// block's weights and activations are alive in that precision, however large the model.
LossAndGradients ReferenceGradients(const TransformerModel& model, const at::Tensor& tokens, const at::Tensor& targets,
                                    at::ScalarType type);

// The logits [batch, tokens, vocab] of the same.
at::Tensor ReferenceLogits(const TransformerModel& model, const at::Tensor& tokens, at::ScalarType type);

}  // namespace roofbench::models
