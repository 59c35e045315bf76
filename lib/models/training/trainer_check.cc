// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/trainer_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique.h>

namespace roofbench::models {
namespace {

using workload::TrainingMode;

constexpr int kUpdates = 2;
// Large, so that what an update changes is not lost in the rounding of the parameter.
constexpr double kTrialLearningRate = 0.1;

// A gradient for trying an optimizer: of the size of the parameter, and never zero where that is not.
at::Tensor TrialGradient(const at::Tensor& parameter) { return parameter.detach().mul(-0.5); }

OptimizerSettings WithLearningRate(OptimizerSettings settings, double rate) {
  settings.learning_rate = rate;
  return settings;
}

// What an update changed, in units of the learning rate, where the storage can hold that; else the parameter.
at::Tensor Change(const at::Tensor& after, const at::Tensor& before, const OptimizerSettings& settings) {
  if (before.scalar_type() != at::kFloat) return after;
  return after.to(at::kDouble).sub(before.detach().to(at::kDouble)).div(settings.learning_rate);
}

}  // namespace

TrainerCheck::TrainerCheck(Trainer& trainer, const at::Tensor& tokens, const at::Tensor& targets,
                           const Options& options)
    : trainer_(trainer),
      tokens_(tokens.narrow(0, 0, options.sequences)),
      targets_(targets.narrow(0, 0, options.sequences)),
      options_(options),
      settings_(WithLearningRate(options.settings, kTrialLearningRate)),
      rows_(std::get<0>(at::_unique(tokens_))),
      updated_({trainer.model().norm, trainer.model().blocks.back().query}) {}

std::vector<at::Tensor> TrainerCheck::Result() {
  std::vector<at::Tensor> results;
  if (options_.mode >= TrainingMode::kForwardBackward) {
    LossAndGradients own = OwnGradients(trainer_, tokens_, targets_);
    own.gradients.front() = own.gradients.front().index_select(0, rows_);
    results = {own.loss};
    results.insert(results.end(), own.gradients.begin(), own.gradients.end());
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
    LossAndGradients reference = ReferenceGradients(model, tokens_, targets_, options_.reference_type);
    reference.gradients.front() = reference.gradients.front().index_select(0, rows_);
    references = {reference.loss};
    references.insert(references.end(), reference.gradients.begin(), reference.gradients.end());
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

}  // namespace roofbench::models
