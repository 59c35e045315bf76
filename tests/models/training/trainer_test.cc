// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/models/training/native_layers.h"
#include "lib/models/training/trainer.h"
#include "lib/observe/peak_memory.h"

namespace roofbench::models {
namespace {

constexpr workload::Transformer kShape{.d_model = 16, .d_ff = 40, .layers = 3, .heads = 2, .vocab = 23};
constexpr int64_t kContext = 8;

class TrainerTest : public testing::TestWithParam<const LayerFunctions*> {
 protected:
  TrainerTest() : generator_(at::detail::createCPUGenerator(3)) {
    tokens_ = at::randint(0, 23, {2, kContext}, generator_, at::kLong);
    targets_ = at::randint(0, 23, {2, kContext}, generator_, at::kLong);
  }

  Trainer MakeTrainer() {
    TransformerModel model(
        kShape, kContext, {.heads = 2, .layers = GetParam()}, [&](at::IntArrayRef shape, double deviation) {
          const at::Tensor made = deviation > 0 ? at::randn(shape, generator_).mul_(deviation)
                                                : at::ones(shape).add_(at::randn(shape, generator_), 0.1);
          return made.requires_grad_(true);
        });
    std::vector<at::Tensor> parameters = model.Parameters();
    const MakeOptimizer make = GetParam() == &NativeLayers() ? MakeNativeAdamW : MakeFusedAdamW;
    return {std::move(model), make(std::move(parameters), {}), /*autocast=*/false};
  }

  at::Generator generator_;
  at::Tensor tokens_;
  at::Tensor targets_;
};

TEST_P(TrainerTest, OwnGradientsAreThoseOfTheReference) {
  Trainer trainer = MakeTrainer();
  const LossAndGradients own = OwnGradients(trainer, tokens_, targets_);
  const LossAndGradients reference = ReferenceGradients(trainer.model(), tokens_, targets_, at::kDouble);
  EXPECT_NEAR(own.loss.item<double>(), reference.loss.item<double>(), 1e-5);
  ASSERT_EQ(own.gradients.size(), 1 + 2 * 9 + 2);  // embedding, first and last block, norm, head
  ASSERT_EQ(reference.gradients.size(), own.gradients.size());
  for (std::size_t i = 0; i < own.gradients.size(); ++i) {
    EXPECT_TRUE(at::allclose(own.gradients[i].to(at::kDouble), reference.gradients[i], 1e-4, 1e-6)) << i;
    EXPECT_GT(reference.gradients[i].abs().max().item<double>(), 1e-4) << i;
  }
}

TEST_P(TrainerTest, TheCheckSeesAWrongWeight) {
  Trainer trainer = MakeTrainer();
  TrainerCheck check(trainer, tokens_, targets_, {.sequences = 2, .make_optimizer = MakeFusedAdamW});
  const std::vector<at::Tensor> before = check.Reference();
  {
    const at::NoGradGuard no_grad;
    trainer.model().blocks[1].up.select(0, 3).add_(1);
  }
  const std::vector<at::Tensor> results = check.Result();
  ASSERT_EQ(results.size(), before.size());
  EXPECT_FALSE(at::allclose(results[1].to(at::kDouble), before[1].to(at::kDouble), 1e-3, 1e-6));
  const std::vector<at::Tensor> after = check.Reference();
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(at::allclose(results[i].to(at::kDouble), after[i].to(at::kDouble), 1e-3, 1e-5)) << i;
  }
}

TEST_P(TrainerTest, StepsLearn) {
  Trainer trainer = MakeTrainer();
  const double first = trainer.Forward(tokens_, targets_).item<double>();
  for (int i = 0; i < 20; ++i) {
    trainer.Backward(trainer.Forward(tokens_, targets_));
    EXPECT_GT(trainer.GradientBytes(), 0);
    trainer.Optimize();
    EXPECT_EQ(trainer.GradientBytes(), 0);
  }
  EXPECT_LT(trainer.Forward(tokens_, targets_).item<double>(), 0.95 * first);
  EXPECT_EQ(trainer.optimizer()->StateBytes(), 8 * kShape.Parameters().Total());
}

INSTANTIATE_TEST_SUITE_P(Layers, TrainerTest, testing::Values(&EagerLayers(), &NativeLayers()),
                         [](const auto& instance) { return instance.index == 0 ? "Eager" : "Native"; });

TEST(Optimizers, FollowTheirFormula) {
  for (const MakeOptimizer make : {MakeSgd, MakeAdamW, MakeFusedAdamW, MakeNativeAdamW}) {
    const at::Tensor start = at::ones({5});
    at::Tensor parameter = start.clone().requires_grad_(true);
    const auto optimizer = make({parameter}, {.learning_rate = 0.1});
    std::optional<AdamWState> state = make == MakeSgd ? std::nullopt : FreshState(start);
    at::Tensor expected = start;
    for (int i = 1; i <= 3; ++i) {
      const at::Tensor gradient = at::ones({5}).mul_(0.3 * i);
      parameter.mutable_grad() = gradient;
      optimizer->Step();
      expected = UpdateByFormula(expected, gradient, {.learning_rate = 0.1}, state);
    }
    EXPECT_TRUE(at::allclose(parameter.detach().to(at::kDouble), expected, 1e-6));
    EXPECT_FALSE(at::allclose(expected, start.to(at::kDouble), 1e-2));
  }
}

using testing::ElementsAre;
using workload::TrainingMode;

constexpr workload::Transformer kRunShape{.d_model = 16, .d_ff = 40, .layers = 2, .heads = 2, .vocab = 23};

class TrainingRunTest : public testing::TestWithParam<const LayerFunctions*> {
 protected:
  TrainingRun Make(TrainingMode mode, Loss loss = Loss::kCrossEntropy, MakeOptimizer make = MakeFusedAdamW) {
    at::Generator seeded = at::detail::createCPUGenerator(3);
    TransformerModel model(
        kRunShape, 8, {.heads = 2, .layers = GetParam(), .loss = loss}, [&](at::IntArrayRef shape, double deviation) {
          const at::Tensor made = deviation > 0 ? at::randn(shape, seeded).mul_(deviation) : at::ones(shape);
          return made.requires_grad_(mode != TrainingMode::kInference);
        });
    const TrainerCheck::Options check{
        .sequences = 2, .mode = mode, .make_optimizer = mode == TrainingMode::kStep ? make : nullptr};
    std::unique_ptr<Optimizer> optimizer;
    if (mode == TrainingMode::kStep) optimizer = make(model.Parameters(), check.settings);
    return {Trainer(std::move(model), std::move(optimizer), /*autocast=*/false),
            at::randint(0, 23, {2, 8}, seeded, at::kLong), at::randint(0, 23, {2, 8}, seeded, at::kLong), check};
  }
  static void ExpectRight(const TrainingRun& run) {
    const std::vector<at::Tensor> results = run.Check().Result();
    const std::vector<at::Tensor> references = run.Check().Reference();
    ASSERT_EQ(results.size(), references.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_FALSE(results[i].requires_grad());
      EXPECT_TRUE(at::allclose(results[i].to(at::kDouble), references[i].to(at::kDouble), 1e-3, 1e-5)) << i;
    }
  }
  static std::vector<TrainingPhase> PhasesOf(TrainingRun& run) {
    std::vector<TrainingPhase> phases;
    run.Step([&](TrainingPhase phase) { phases.push_back(phase); });
    return phases;
  }
};

TEST_P(TrainingRunTest, EachModeGoesAsFarAsItSays) {
  using enum TrainingPhase;
  TrainingRun step = Make(TrainingMode::kStep);
  EXPECT_THAT(PhasesOf(step), ElementsAre(kForward, kBackward, kOptimizer));
  EXPECT_EQ(step.GradientBytes(), step.ParameterBytes());
  EXPECT_EQ(step.OptimizerBytes(), 2 * step.ParameterBytes());
  TrainingRun both = Make(TrainingMode::kForwardBackward);
  EXPECT_THAT(PhasesOf(both), ElementsAre(kForward, kBackward));
  EXPECT_EQ(both.GradientBytes(), both.ParameterBytes());
  for (const TrainingMode mode : {TrainingMode::kForward, TrainingMode::kInference}) {
    TrainingRun forward = Make(mode);
    EXPECT_THAT(PhasesOf(forward), ElementsAre(kForward));
    EXPECT_EQ(forward.GradientBytes(), 0);
  }
}

// The activations that a forward pass records are those of a whole step, and inference leaves none but the loss.
TEST_P(TrainingRunTest, ForwardKeepsActivationsAndInferenceDoesNot) {
  const auto activations = [&](TrainingMode mode) {
    const at::AutoGradMode grad(mode != TrainingMode::kInference);
    TrainingRun run = Make(mode);
    const observe::PeakMemory memory;
    PhasesOf(run);
    return run.ActivationBytes();
  };
  EXPECT_EQ(activations(TrainingMode::kForward), activations(TrainingMode::kStep));
  EXPECT_GT(activations(TrainingMode::kForward), 10000);
  EXPECT_LE(activations(TrainingMode::kInference), 64);
}

TEST_P(TrainingRunTest, TheCheckOfEveryModeAgreesWithItsReference) {
  for (const TrainingMode mode :
       {TrainingMode::kInference, TrainingMode::kForward, TrainingMode::kForwardBackward, TrainingMode::kStep}) {
    TrainingRun run = Make(mode);
    ExpectRight(run);
  }
}

TEST_P(TrainingRunTest, ForeachUpdatesAsTheFormula) {
  TrainingRun run = Make(TrainingMode::kStep, Loss::kCrossEntropy, MakeForeachAdamW);
  ExpectRight(run);
  PhasesOf(run);
  EXPECT_EQ(run.OptimizerBytes(), 2 * run.ParameterBytes());
}

// Foreach holds the divisors of all parameters at once, which no other implementation does.
TEST_P(TrainingRunTest, ForeachTakesAllParametersTogether) {
  const auto held = [&](MakeOptimizer make) {
    TrainingRun run = Make(TrainingMode::kStep, Loss::kCrossEntropy, make);
    observe::PeakMemory memory;
    double before = 0;
    run.Step([&](TrainingPhase phase) {
      if (phase != TrainingPhase::kBackward) return;
      memory.ResetPeak();
      before = *observe::PeakMemory::BytesNow();
    });
    return (memory.PeakBytes() - before) / run.ParameterBytes();
  };
  EXPECT_GE(held(MakeForeachAdamW), 1);
  EXPECT_LT(held(MakeFusedAdamW), 0.5);
}

TEST_P(TrainingRunTest, TheMeanOfTheLogitsIsTheLossWhereItIsAskedFor) {
  for (const TrainingMode mode : {TrainingMode::kInference, TrainingMode::kForwardBackward}) {
    TrainingRun run = Make(mode, Loss::kMeanLogit);
    ExpectRight(run);
    // Near zero, where a cross-entropy over 23 words is about 3.
    EXPECT_LT(run.Check().Result().front().abs().item<double>(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, TrainingRunTest, testing::Values(&EagerLayers(), &NativeLayers()),
                         [](const auto& instance) { return instance.index == 0 ? "Eager" : "Native"; });

}  // namespace
}  // namespace roofbench::models
