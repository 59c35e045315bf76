// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>

#include <optional>
#include <utility>

#include "lib/aten/precision_scopes.h"
#include "lib/aten/storage_type.h"
#include "lib/observe/peak_memory.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

using workload::TrainingMode;

constexpr int kUpdates = 2;
// Large, so that the rounding of the parameter does not hide an update.
constexpr double kTrialLearningRate = 0.1;

// A gradient that tries an optimizer: half the size of the parameter, and zero only where that is.
at::Tensor TrialGradient(const at::Tensor& parameter) { return parameter.detach().mul(-0.5); }

OptimizerSettings WithLearningRate(OptimizerSettings settings, double rate) {
  settings.learning_rate = rate;
  return settings;
}

// The change by an update in units of the learning rate for fp32 parameters; otherwise the parameter.
at::Tensor Change(const at::Tensor& after, const at::Tensor& before, const OptimizerSettings& settings) {
  if (before.scalar_type() != at::kFloat) return after;
  return after.to(at::kDouble).sub(before.detach().to(at::kDouble)).div(settings.learning_rate);
}

at::Tensor Leaf(const at::Tensor& tensor, at::ScalarType type, bool requires_grad) {
  return tensor.detach().to(type).requires_grad_(requires_grad);
}

TransformerBlock Converted(const TransformerBlock& block, at::ScalarType type, bool requires_grad) {
  TransformerBlock converted = block;
  for (at::Tensor* tensor : TransformerBlock::Tensors(converted)) *tensor = Leaf(*tensor, type, requires_grad);
  return converted;
}

TransformerContext OnLibTorch(TransformerContext context) {
  context.layers = &EagerLayers();
  return context;
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

// The loss of a batch and its gradients with respect to the embedding, the first block, the last block (unless it is
// the first), the final norm and the head: by `trainer`'s operations in its precision. The parameters must have no
// gradients, and have none afterwards.
std::vector<at::Tensor> LossAndGradients(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets) {
  const at::AutoGradMode grad(true);
  const TransformerModel& model = trainer.model();
  const at::Tensor loss = trainer.Forward(tokens, targets);
  trainer.Backward(loss);
  std::vector<at::Tensor> own = {loss.detach(), model.embedding.grad()};
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (!IsWatched(i, model)) continue;
    for (const at::Tensor* tensor : TransformerBlock::Tensors(model.blocks[i])) own.push_back(tensor->grad());
  }
  own.insert(own.end(), {model.norm.grad(), model.head.grad()});
  trainer.ForgetGradients();
  return own;
}

// The same by LibTorch's operations in precision `type`. Blocks run one at a time, forward and again for backward, so
// that only one block's weights and activations exist in that precision.
std::vector<at::Tensor> ReferenceGradients(const TransformerModel& model, const at::Tensor& tokens,
                                           const at::Tensor& targets, at::ScalarType type) {
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

  std::vector<at::Tensor> reference = {norm.grad(), head.grad()};
  at::Tensor upstream = x.grad();
  for (std::size_t i = model.blocks.size(); i-- > 0;) {
    const TransformerBlock block = Converted(model.blocks[i], type, IsWatched(i, model));
    x = Leaf(inputs[i], type, true);
    RunBlock(block, model.rope, context, x).backward(upstream);
    upstream = x.grad();
    if (!IsWatched(i, model)) continue;
    std::vector<at::Tensor> own;
    for (const at::Tensor* tensor : TransformerBlock::Tensors(block)) own.push_back(tensor->grad());
    reference.insert(reference.begin(), own.begin(), own.end());
  }
  const at::Tensor of_embedding =
      at::embedding_dense_backward(upstream, tokens, model.embedding.size(0), -1, /*scale_grad_by_freq=*/false);
  reference.insert(reference.begin(), {loss.detach(), of_embedding});
  return reference;
}

// The logits [batch, tokens, vocab], computed the same way.
at::Tensor ReferenceLogits(const TransformerModel& model, const at::Tensor& tokens, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const LayerFunctions& layers = EagerLayers();
  const at::Tensor x = BlockInputs(model, tokens, type).back();
  return layers.linear(layers.norm(x, Leaf(model.norm, type, false), model.context.norm_epsilon),
                       Leaf(model.head, type, false));
}

}  // namespace

Trainer::Trainer(TransformerModel model, std::unique_ptr<Optimizer> optimizer, bool autocast)
    : model_(std::move(model)),
      parameters_(model_.Parameters()),
      optimizer_(std::move(optimizer)),
      autocast_(autocast) {}

at::Tensor Trainer::Forward(const at::Tensor& tokens, const at::Tensor& targets) {
  if (inference_) return inference_(tokens, targets).front();
  const Autocast guard(autocast_, model_.context.device.type());
  return model_.Loss(tokens, targets);
}

at::Tensor Trainer::Logits(const at::Tensor& tokens) {
  if (inference_) return inference_(tokens, /*targets=*/tokens).back();
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

TrainerCheck::TrainerCheck(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets,
                           const Options& options)
    : trainer_(trainer),
      tokens_(tokens.narrow(0, 0, options.sequences)),
      targets_(targets.narrow(0, 0, options.sequences)),
      options_(options),
      settings_(WithLearningRate(options.settings, kTrialLearningRate)),
      rows_(std::get<0>(at::_unique(tokens_))),
      targeted_(std::get<0>(at::_unique(targets_))),
      others_(at::ones({trainer.model().head.size(0)}, targets_.options())
                  .index_fill_(0, targeted_, 0)
                  .nonzero()
                  .view({-1})),
      updated_({trainer.model().norm, trainer.model().blocks.back().query}) {}

void TrainerCheck::SplitRows(std::vector<at::Tensor>& gradients) const {
  gradients[1] = gradients[1].index_select(0, rows_);
  const at::Tensor head = gradients.back();
  gradients.back() = head.index_select(0, targeted_);
  if (others_.numel() > 0) gradients.push_back(head.index_select(0, others_));
}

std::vector<at::Tensor> TrainerCheck::Result() {
  std::vector<at::Tensor> results;
  if (options_.mode >= TrainingMode::kForwardBackward) {
    results = LossAndGradients(trainer_, tokens_, targets_);
    SplitRows(results);
  } else {
    const at::AutoGradMode grad(options_.mode == TrainingMode::kForward);
    results = {trainer_.Forward(tokens_, targets_).detach(), trainer_.Logits(tokens_).select(1, -1).detach()};
  }
  const std::vector<at::Tensor> copies = OptimizedCopies();
  results.insert(results.end(), copies.begin(), copies.end());
  return results;
}

std::vector<at::Tensor> TrainerCheck::OptimizedCopies() const {
  if (options_.make_optimizer == nullptr) return {};
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : updated_) {
    copies.push_back(parameter.detach().clone().requires_grad_(true));
    copies.back().mutable_grad() = TrialGradient(parameter);
  }
  const std::unique_ptr<Optimizer> optimizer = options_.make_optimizer(copies, settings_);
  for (int i = 0; i < kUpdates; ++i) optimizer->Step();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copies[i] = Change(copies[i].detach(), updated_[i], settings_);
  }
  return copies;
}

std::vector<at::Tensor> TrainerCheck::Reference() const {
  const TransformerModel& model = trainer_.model();
  std::vector<at::Tensor> references;
  if (options_.mode >= TrainingMode::kForwardBackward) {
    references = ReferenceGradients(model, tokens_, targets_, options_.reference_type);
    SplitRows(references);
  } else {
    const at::Tensor logits = ReferenceLogits(model, tokens_, options_.reference_type);
    references = {LossOf(OnLibTorch(model.context), logits, targets_), logits.select(1, -1)};
  }
  if (options_.make_optimizer == nullptr) return references;
  for (const at::Tensor& parameter : updated_) {
    std::optional<AdamWState> state = options_.has_moments ? FreshState(parameter) : std::nullopt;
    at::Tensor updated = parameter;
    for (int i = 0; i < kUpdates; ++i) {
      updated = UpdateByFormula(updated, TrialGradient(parameter), settings_, state);
    }
    references.push_back(Change(updated, parameter, settings_));
  }
  return references;
}

TrainingRun::TrainingRun(Trainer trainer, at::Tensor tokens, at::Tensor targets, const TrainerCheck::Options& check)
    : trainer_(std::make_unique<Trainer>(std::move(trainer))),
      tokens_(std::move(tokens)),
      targets_(std::move(targets)),
      check_(check) {}

at::Tensor TrainingRun::Forward() {
  const observe::Range range("forward");
  const std::optional<double> before = observe::PeakMemory::BytesNow();
  at::Tensor loss = trainer_->Forward(tokens_, targets_);
  if (before) activation_bytes_ = *observe::PeakMemory::BytesNow() - *before;
  loss_ = loss.detach();
  return loss;
}

void TrainingRun::Step(const std::function<void(TrainingPhase)>& end) {
  const LayerProducts::Counter counter(products_);
  const at::Tensor loss = Forward();
  end(TrainingPhase::kForward);
  if (check_.mode < TrainingMode::kForwardBackward) return;
  const bool optimizes = check_.mode == TrainingMode::kStep;
  {
    const observe::Range range("backward");
    trainer_->Backward(loss);
    if (gradient_bytes_ == 0) gradient_bytes_ = trainer_->GradientBytes();
  }
  if (!optimizes) trainer_->ForgetGradients();
  end(TrainingPhase::kBackward);
  if (!optimizes) return;
  {
    const observe::Range range(observe::kOptimizerRange);
    trainer_->Optimize();
  }
  end(TrainingPhase::kOptimizer);
}

std::vector<at::Tensor> TrainingRun::Updated() const {
  if (trainer_->optimizer() == nullptr) return {};
  std::vector<at::Tensor> updated = trainer_->model().Parameters();
  const std::vector<at::Tensor> state = trainer_->optimizer()->State();
  updated.insert(updated.end(), state.begin(), state.end());
  return updated;
}

double TrainingRun::ParameterBytes() const { return BytesOf(trainer_->model().Parameters()); }

double TrainingRun::OptimizerBytes() const { return BytesOf(trainer_->optimizer()->State()); }

}  // namespace roofbench::models
