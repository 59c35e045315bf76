// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>

#include <utility>

#include "lib/aten/autocast.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

at::Tensor Leaf(const at::Tensor& tensor, at::ScalarType type, bool requires_grad) {
  return tensor.detach().to(type).requires_grad_(requires_grad);
}

TransformerBlock Converted(const TransformerBlock& block, at::ScalarType type, bool requires_grad) {
  TransformerBlock converted = block;
  TransformerBlock::ForEach(converted,
                            [&](const char*, at::Tensor& tensor) { tensor = Leaf(tensor, type, requires_grad); });
  return converted;
}

// The input of every block, and of the final norm.
std::vector<at::Tensor> BlockInputs(const TransformerModel& model, const at::Tensor& tokens, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const TransformerContext context = OnLibTorch(model.context);
  std::vector<at::Tensor> inputs = {at::embedding(model.embedding, tokens).to(type)};
  for (const TransformerBlock& block : model.blocks) {
    inputs.push_back(RunBlock(Converted(block, type, false), model.rope, context, inputs.back()));
  }
  return inputs;
}

bool IsWatched(std::size_t block, const TransformerModel& model) {
  return block == 0 || block + 1 == model.blocks.size();
}

}  // namespace

TransformerContext OnLibTorch(TransformerContext context) {
  context.layers = &EagerLayers();
  return context;
}

Trainer::Trainer(TransformerModel model, std::unique_ptr<Optimizer> optimizer, bool autocast)
    : model_(std::move(model)),
      parameters_(model_.Parameters()),
      optimizer_(std::move(optimizer)),
      autocast_(autocast) {}

at::Tensor Trainer::Forward(const at::Tensor& tokens, const at::Tensor& targets) {
  const Autocast guard(autocast_, model_.context.device.type());
  return model_.Loss(tokens, targets);
}

at::Tensor Trainer::Logits(const at::Tensor& tokens) {
  const Autocast guard(autocast_, model_.context.device.type());
  return model_.Logits(tokens);
}

void Trainer::Backward(const at::Tensor& loss) { loss.backward(); }

void Trainer::Optimize() {
  optimizer_->Step();
  ForgetGradients();
}

void Trainer::ForgetGradients() {
  const observe::Range range(observe::kZeroGradRange);
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

double Trainer::GradientBytes() const {
  double bytes = 0;
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) bytes += static_cast<double>(parameter.grad().nbytes());
  }
  return bytes;
}

LossAndGradients OwnGradients(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets) {
  const at::AutoGradMode grad(true);
  const TransformerModel& model = trainer.model();
  const at::Tensor loss = trainer.Forward(tokens, targets);
  trainer.Backward(loss);
  LossAndGradients own{.loss = loss.detach(), .gradients = {model.embedding.grad()}};
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (!IsWatched(i, model)) continue;
    TransformerBlock::ForEach(model.blocks[i],
                              [&](const char*, const at::Tensor& tensor) { own.gradients.push_back(tensor.grad()); });
  }
  own.gradients.push_back(model.norm.grad());
  own.gradients.push_back(model.head.grad());
  trainer.ForgetGradients();
  return own;
}

LossAndGradients ReferenceGradients(const TransformerModel& model, const at::Tensor& tokens, const at::Tensor& targets,
                                    at::ScalarType type) {
  const at::AutoGradMode grad(true);
  const TransformerContext context = OnLibTorch(model.context);
  const std::vector<at::Tensor> inputs = BlockInputs(model, tokens, type);

  at::Tensor x = Leaf(inputs.back(), type, true);
  const at::Tensor norm = Leaf(model.norm, type, true);
  const at::Tensor head = Leaf(model.head, type, true);
  const LayerFunctions& layers = EagerLayers();
  const at::Tensor logits = layers.linear(layers.norm(x, norm, context.norm_epsilon), head);
  const at::Tensor loss = LossOf(context, logits, targets);
  loss.backward();

  std::vector<std::vector<at::Tensor>> watched(model.blocks.size());
  at::Tensor upstream = x.grad();
  for (std::size_t i = model.blocks.size(); i-- > 0;) {
    const TransformerBlock block = Converted(model.blocks[i], type, IsWatched(i, model));
    x = Leaf(inputs[i], type, true);
    RunBlock(block, model.rope, context, x).backward(upstream);
    upstream = x.grad();
    if (!IsWatched(i, model)) continue;
    TransformerBlock::ForEach(block,
                              [&](const char*, const at::Tensor& tensor) { watched[i].push_back(tensor.grad()); });
  }
  LossAndGradients reference{.loss = loss.detach(), .gradients = {}};
  reference.gradients.push_back(
      at::embedding_dense_backward(upstream, tokens, model.embedding.size(0), -1, /*scale_grad_by_freq=*/false));
  for (std::vector<at::Tensor>& gradients : watched) {
    reference.gradients.insert(reference.gradients.end(), gradients.begin(), gradients.end());
  }
  reference.gradients.push_back(norm.grad());
  reference.gradients.push_back(head.grad());
  return reference;
}

at::Tensor ReferenceLogits(const TransformerModel& model, const at::Tensor& tokens, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const LayerFunctions& layers = EagerLayers();
  const at::Tensor x = BlockInputs(model, tokens, type).back();
  return layers.linear(layers.norm(x, Leaf(model.norm, type, false), model.context.norm_epsilon),
                       Leaf(model.head, type, false));
}

}  // namespace roofbench::models
