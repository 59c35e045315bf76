// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/training_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/models/training/native_layers.h"
#include "lib/observe/peak_memory.h"

namespace roofbench::models {
namespace {

using testing::ElementsAre;
using workload::TrainingMode;

constexpr workload::Transformer kShape{.d_model = 16, .d_ff = 40, .layers = 2, .heads = 2, .vocab = 23};

class TrainingRunTest : public testing::TestWithParam<const LayerFunctions*> {
 protected:
  TrainingRun Make(TrainingMode mode, Loss loss = Loss::kCrossEntropy, MakeOptimizer make = MakeFusedAdamW) {
    at::Generator seeded = at::detail::createCPUGenerator(3);
    TransformerModel model(
        kShape, 8, {.heads = 2, .layers = GetParam(), .loss = loss}, [&](at::IntArrayRef shape, double deviation) {
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

// So that there is a divisor for each of them at once, which no other implementation holds.
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
