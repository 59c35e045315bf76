// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/models/training/trainer.h"
#include "lib/observe/peak_memory.h"

namespace roofbench::models {
namespace {

using testing::ElementsAre;
using workload::TrainingMode;

constexpr workload::Transformer kShape{.d_model = 16, .d_ff = 40, .layers = 3, .heads = 2, .vocab = 23};
constexpr int64_t kContext = 8;

class TrainingRunTest : public testing::TestWithParam<const LayerFunctions*> {
 protected:
  Trainer MakeTrainer(TrainingMode mode, MakeOptimizer make, Loss loss = Loss::kCrossEntropy) {
    TransformerModel model(kShape, kContext, {.heads = 2, .layers = GetParam(), .loss = loss},
                           [&](at::IntArrayRef shape, double deviation) {
                             const at::Tensor made = deviation > 0
                                                         ? at::randn(shape, generator_).mul_(deviation)
                                                         : at::ones(shape).add_(at::randn(shape, generator_), 0.1);
                             return made.requires_grad_(mode != TrainingMode::kInference);
                           });
    std::unique_ptr<Optimizer> optimizer;
    if (mode == TrainingMode::kStep) optimizer = make(model.Parameters(), {});
    return {std::move(model), std::move(optimizer), /*autocast=*/false};
  }
  at::Tensor Tokens() { return at::randint(0, 23, {2, kContext}, generator_, at::kLong); }
  TrainingRun Make(TrainingMode mode, Loss loss = Loss::kCrossEntropy, MakeOptimizer make = MakeFusedAdamW) {
    const TrainerCheck::Options check{
        .sequences = 2, .mode = mode, .make_optimizer = mode == TrainingMode::kStep ? make : nullptr};
    return {MakeTrainer(mode, make, loss), Tokens(), Tokens(), check};
  }
  static void ExpectEqual(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& references,
                          double relative = 1e-3, double absolute = 1e-5) {
    ASSERT_EQ(results.size(), references.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_FALSE(results[i].requires_grad());
      EXPECT_TRUE(at::allclose(results[i].to(at::kDouble), references[i].to(at::kDouble), relative, absolute)) << i;
    }
  }
  static void ExpectRight(const TrainingRun& run) { ExpectEqual(run.Check().Result(), run.Check().Reference()); }
  static std::vector<TrainingPhase> PhasesOf(TrainingRun& run) {
    std::vector<TrainingPhase> phases;
    run.Step([&](TrainingPhase phase) { phases.push_back(phase); });
    return phases;
  }

  at::Generator generator_ = at::detail::createCPUGenerator(3);
};

TEST_P(TrainingRunTest, TheCheckSeesAWrongWeight) {
  Trainer trainer = MakeTrainer(TrainingMode::kForwardBackward, nullptr);
  TrainerCheck check(trainer, Tokens(), Tokens(), {.sequences = 2, .make_optimizer = MakeFusedAdamW});
  const std::vector<at::Tensor> before = check.Reference();
  {
    const at::NoGradGuard no_grad;
    trainer.model().blocks[1].up.select(0, 3).add_(1);
  }
  const std::vector<at::Tensor> results = check.Result();
  EXPECT_FALSE(at::allclose(results[1].to(at::kDouble), before[1].to(at::kDouble), 1e-3, 1e-6));
  ExpectEqual(results, check.Reference());
}

TEST_P(TrainingRunTest, StepsLearn) {
  const bool is_native = GetParam() == &NativeLayers();
  Trainer trainer = MakeTrainer(TrainingMode::kStep, is_native ? MakeNativeAdamW : MakeFusedAdamW);
  const at::Tensor tokens = Tokens();
  const at::Tensor targets = Tokens();
  const double first = trainer.Forward(tokens, targets).item<double>();
  for (int i = 0; i < 20; ++i) {
    trainer.Backward(trainer.Forward(tokens, targets));
    EXPECT_GT(trainer.GradientBytes(), 0);
    trainer.Optimize();
    EXPECT_EQ(trainer.GradientBytes(), 0);
  }
  EXPECT_LT(trainer.Forward(tokens, targets).item<double>(), 0.95 * first);
  double elements = 0;
  for (const at::Tensor& state : trainer.optimizer()->State()) elements += static_cast<double>(state.numel());
  const double counts = is_native ? 0 : static_cast<double>(trainer.model().Parameters().size());
  EXPECT_EQ(elements, 2 * kShape.Parameters().Total() + counts);
}

TEST_P(TrainingRunTest, EachModeRunsItsPhases) {
  using enum TrainingPhase;
  TrainingRun step = Make(TrainingMode::kStep);
  EXPECT_THAT(PhasesOf(step), ElementsAre(kForward, kBackward, kOptimizer));
  EXPECT_EQ(step.GradientBytes(), step.ParameterBytes());
  const auto tensors = static_cast<double>(step.Updated().size());
  EXPECT_NEAR(step.OptimizerBytes(), 2 * step.ParameterBytes(), 4 * tensors) << "and a count of steps for each";
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

// The loss, and the gradients of the embedding, the first and the last block, the norm and the head.
TEST_P(TrainingRunTest, TheCheckSeesGradients) {
  const TrainingRun run = Make(TrainingMode::kForwardBackward);
  const std::vector<at::Tensor> references = run.Check().Reference();
  ASSERT_EQ(references.size(), 1 + 1 + 2 * 9 + 2);
  for (const at::Tensor& reference : references) EXPECT_GT(reference.abs().max().item<double>(), 1e-4);
  ExpectEqual(run.Check().Result(), references, 1e-4, 1e-6);
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

TEST_P(TrainingRunTest, TheLossMayBeTheMeanLogit) {
  for (const TrainingMode mode : {TrainingMode::kInference, TrainingMode::kForwardBackward}) {
    TrainingRun run = Make(mode, Loss::kMeanLogit);
    ExpectRight(run);
    // Near zero, where a cross-entropy over 23 words is about 3.
    EXPECT_LT(run.Check().Result().front().abs().item<double>(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, TrainingRunTest, testing::Values(&EagerLayers(), &NativeLayers()),
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

}  // namespace
}  // namespace roofbench::models
