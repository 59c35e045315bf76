// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lib/models/training/native_layers.h"
#include "lib/models/training/trainer_check.h"

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

}  // namespace
}  // namespace roofbench::models
