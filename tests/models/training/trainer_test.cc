// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/models/training/trainer.h"
#include "lib/observe/peak_memory.h"
#include "tests/models/race.h"
#include "tests/models/training/layer_tiles.h"

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

// The loss, and the gradients of the embedding, the first and the last block, the norm and the head: its rows that are
// targets, and the others.
TEST_P(TrainingRunTest, TheCheckSeesGradients) {
  const TrainingRun run = Make(TrainingMode::kForwardBackward);
  const std::vector<at::Tensor> references = run.Check().Reference();
  ASSERT_EQ(references.size(), 1 + 1 + 2 * 9 + 1 + 2);
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

// Products in bf16 of fp32 and of bf16 parameters.
class StepsByTiles : public testing::TestWithParam<at::ScalarType> {
 protected:
  // Tiles of which none is full, in any dimension.
  static constexpr workload::Transformer kUneven = {.d_model = 36, .d_ff = 50, .layers = 2, .heads = 2, .vocab = 23};
  static constexpr int64_t kBatch = 3;
  static constexpr int kSteps = 3;

  // The loss and the gradients of each step, and then the parameters.
  static std::vector<at::Tensor> Train(const LayerFunctions& layers, at::ScalarType storage, bool autocast) {
    at::Generator generator = at::detail::createCPUGenerator(11);
    TransformerModel model(
        kUneven, kContext, {.heads = 2, .layers = &layers}, [&](at::IntArrayRef shape, double deviation) {
          const at::Tensor made = deviation > 0 ? at::randn(shape, generator).mul_(deviation) : at::ones(shape);
          // Rounded first, so that all start from the same numbers.
          return made.to(GetParam()).to(storage).requires_grad_(true);
        });
    const std::vector<at::Tensor> parameters = model.Parameters();
    Trainer trainer(std::move(model), MakeSgd(parameters, {.learning_rate = 0.5}), autocast);
    std::vector<at::Tensor> results;
    for (int step = 0; step < kSteps; ++step) {
      const auto draw = [&] { return at::randint(0, 23, {kBatch, kContext}, generator, at::kLong); };
      const at::Tensor loss = trainer.Forward(draw(), draw());
      trainer.Backward(loss);
      results.push_back(loss.detach());
      for (const at::Tensor& parameter : parameters) results.push_back(parameter.grad());
      trainer.Optimize();
    }
    for (const at::Tensor& parameter : parameters) results.push_back(parameter.detach());
    return results;
  }
};

TEST_P(StepsByTiles, AreAsNearToFp32AsEager) {
  const bool autocast = GetParam() == at::kFloat;
  const std::vector<at::Tensor> exact = Train(EagerLayers(), at::kFloat, false);
  const std::vector<at::Tensor> eager = Train(EagerLayers(), GetParam(), autocast);
  const EmulatedLayerTiles tiles;
  const std::vector<at::Tensor> tiled = Train(NativeLayers(), GetParam(), autocast);
  // Three products for each of seven matrices of a block, and for the head.
  EXPECT_EQ(tiles.Products(), kSteps * 3 * (7 * 2 + 1));
  const auto off = [](const at::Tensor& actual, const at::Tensor& expected) {
    return actual.to(at::kFloat).sub(expected).norm().item<double>() / expected.norm().item<double>();
  };
  for (std::size_t i = 0; i < exact.size(); ++i) {
    // Our loss is fp32.
    if (tiled[i].dim() > 0) {
      EXPECT_EQ(tiled[i].scalar_type(), GetParam()) << i;
    }
    EXPECT_LT(off(tiled[i], exact[i]), 1.5 * off(eager[i], exact[i]) + 2e-3) << i;
  }
}

TEST_P(StepsByTiles, TakeTheFaster) {
  const bool autocast = GetParam() == at::kFloat;
  const auto expect_equal = [](const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(results[i].equal(expected[i])) << i;
  };
  for (const bool ours : {true, false}) {
    const std::vector<at::Tensor> expected = [&] {
      const EmulatedLayerTiles always(ours);
      return Train(NativeLayers(), GetParam(), autocast);
    }();
    Race race(ours);
    const EmulatedLayerTiles tiles(/*on=*/true, race.choice());
    LayerProducts::Counts counts;
    {
      const LayerProducts::Counter counter(counts);
      expect_equal(Train(FastestLayers(), GetParam(), autocast), expected);
    }
    constexpr int64_t kAll = kSteps * 3 * (7 * 2 + 1);
    EXPECT_EQ(counts.by_tiles, ours ? kAll : 0);
    EXPECT_EQ(counts.by_library, ours ? 0 : kAll);
    // Four shapes of matrices, in three products each, three times both ways.
    EXPECT_EQ(race.runs(), 4 * 3 * 6);
  }
}

TEST_P(StepsByTiles, OfNativeLayersTakeTiles) {
  Race race(/*ours=*/false);
  const EmulatedLayerTiles tiles(/*on=*/true, race.choice());
  Train(NativeLayers(), GetParam(), /*autocast=*/GetParam() == at::kFloat);
  EXPECT_EQ(race.runs(), 0);
  EXPECT_GT(tiles.Products(), 0);
  EXPECT_EQ(tiles.LibraryProducts(), 0);
}

// Where vectors, and the gradient of the head, are a large part.
TEST_P(StepsByTiles, TakeThePredictedMemory) {
  const EmulatedLayerTiles tiles;
  const bool autocast = GetParam() == at::kFloat;
  workload::TransformerTraining work{.shape = {.d_model = 64, .d_ff = 128, .layers = 1, .heads = 2},
                                     .batch = 4,
                                     .context = 32,
                                     .compute = workload::Dtype::kBf16,
                                     .storage = autocast ? workload::Dtype::kFp32 : workload::Dtype::kBf16,
                                     .optimizer = workload::OptimizerKind::kSgd,
                                     .implementation = workload::TrainingImplementation::kNative,
                                     .tiles = true};
  for (const auto& [mode, vocab] : {std::pair{TrainingMode::kInference, 1280.0},
                                    std::pair{TrainingMode::kForward, 50.0}, std::pair{TrainingMode::kStep, 2000.0}}) {
    work.shape.vocab = vocab;
    const bool records = mode != TrainingMode::kInference;
    const at::AutoGradMode grad(records);
    TransformerModel model(work.shape, 32, {.heads = 2, .layers = &NativeLayers()}, [&](at::IntArrayRef shape, double) {
      return at::ones(shape, GetParam()).requires_grad_(records);
    });
    const std::vector<at::Tensor> parameters = model.Parameters();
    Trainer trainer(std::move(model), MakeSgd(parameters, {}), autocast);
    const at::Tensor tokens = at::zeros({4, 32}, at::kLong);
    TrainingRun run(std::move(trainer), tokens, tokens, {.mode = mode, .make_optimizer = MakeSgd});
    const observe::PeakMemory memory;
    run.Step([](TrainingPhase) {});
    EXPECT_EQ(run.products().by_tiles, (mode == TrainingMode::kStep ? 3 : 1) * (7 + 1));
    const workload::TrainingMemory expected = work.Memory(mode);
    const double peak = expected.peak - expected.parameters;
    EXPECT_NEAR(memory.PeakBytes(), peak, 0.02 * peak) << static_cast<int>(mode);
  }
}

INSTANTIATE_TEST_SUITE_P(Parameters, StepsByTiles, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& instance) { return instance.index == 0 ? "Fp32" : "Bf16"; });

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
