// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/training_run.h"

#include <optional>
#include <utility>

#include "lib/observe/peak_memory.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {

using workload::TrainingMode;

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
  return loss;
}

void TrainingRun::Step(const std::function<void(TrainingPhase)>& end) {
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

double TrainingRun::ParameterBytes() const {
  double bytes = 0;
  for (const at::Tensor& parameter : trainer_->model().Parameters()) bytes += static_cast<double>(parameter.nbytes());
  return bytes;
}

}  // namespace roofbench::models
