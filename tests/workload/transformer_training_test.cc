#include "lib/workload/transformer_training.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

constexpr Transformer kTiny{.d_model = 8, .d_ff = 24, .layers = 2, .heads = 4, .vocab = 11};

TransformerTraining Tiny(Dtype compute = Dtype::kFp32, Dtype storage = Dtype::kFp32) {
  return {.shape = kTiny,
          .batch = 3,
          .context = 5,
          .compute = compute,
          .storage = storage,
          .attention = AttentionKind::kNaive};
}

TEST(TransformerTraining, MatmulFlopsByHand) {
  const double linear = 2.0 * 15 * (2 * (4 * 64 + 3 * 8 * 24) + 88);
  const double attention = 2.0 * 3 * 4 * (2 * 2.0 * 5 * 5 * 2);  // layers, batch, heads, two products of 5 x 5 x 2
  EXPECT_EQ(Tiny().ForwardMatmulFlops(), linear + attention);
  EXPECT_EQ(Tiny().BackwardMatmulFlops(), 2 * (linear + attention));
  TransformerTraining fused = Tiny();
  fused.attention = AttentionKind::kFused;
  EXPECT_EQ(fused.ForwardMatmulFlops(), linear + attention * 15 / 25);  // 15 of 25 pairs are not in the future
}

// The products alone run in the precision of the products, so the cost's FLOPs there are the formula's.
TEST(TransformerTraining, CostHoldsEveryProduct) {
  for (const AttentionKind attention : {AttentionKind::kNaive, AttentionKind::kFused}) {
    TransformerTraining work = Tiny(Dtype::kBf16);
    work.attention = attention;
    EXPECT_DOUBLE_EQ(work.Forward().Flops(Dtype::kBf16), work.ForwardMatmulFlops());
    EXPECT_DOUBLE_EQ(work.Backward().Flops(Dtype::kBf16), work.BackwardMatmulFlops());
    EXPECT_EQ(work.Optimizer().Flops(Dtype::kBf16), 0);
  }
}

TEST(TransformerTraining, OptimizerBytes) {
  TransformerTraining work = Tiny();
  EXPECT_EQ(work.Optimizer().Bytes(), 28 * kTiny.Parameters().Total());
  work.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(work.Optimizer().Bytes(), 12 * kTiny.Parameters().Total());
}

TEST(TransformerTraining, ModesAddUp) {
  const TransformerTraining work = Tiny();
  EXPECT_EQ(work.Step(TrainingMode::kForward).Flops(), work.Forward().Flops());
  EXPECT_EQ(work.Step(TrainingMode::kForwardBackward).Bytes(), work.Forward().Bytes() + work.Backward().Bytes());
  EXPECT_EQ(work.Step(TrainingMode::kStep).Bytes(),
            work.Forward().Bytes() + work.Backward().Bytes() + work.Optimizer().Bytes());
}

TEST(TransformerTraining, PalmFlopsByTheirFormula) {
  const double n = kTiny.Parameters().Total();
  EXPECT_EQ(Tiny().PalmFlops(TrainingMode::kStep), 15 * (6 * n + 12 * 2 * 4 * 2 * 5));
  EXPECT_EQ(Tiny().PalmFlops(TrainingMode::kForward), 15 * (2 * n + 4 * 2 * 4 * 2 * 5));
}

// As measured on a CPU for the size small at batch 4, context 128 (bytes of tensors, LibTorch 2.11).
TEST(TransformerTraining, MemoryIsNearTheMeasured) {
  struct Measured {
    TrainingImplementation implementation;
    Dtype compute;
    double activations;
    double peak;
  };
  constexpr Measured kMeasured[] = {
      {TrainingImplementation::kEager, Dtype::kFp32, 535545864, 2120053188},
      {TrainingImplementation::kEager, Dtype::kBf16, 587868168, 2172375492},
      {TrainingImplementation::kNative, Dtype::kFp32, 401164292, 2059621376},
      {TrainingImplementation::kNative, Dtype::kBf16, 462120964, 2059621384},
  };
  for (const Measured& measured : kMeasured) {
    const TransformerTraining work{.shape = *FindTransformer("small"),
                                   .batch = 4,
                                   .context = 128,
                                   .compute = measured.compute,
                                   .implementation = measured.implementation};
    const TrainingMemory memory = work.Memory(TrainingMode::kStep);
    EXPECT_NEAR(memory.activations / measured.activations, 1, 0.01);
    EXPECT_NEAR(memory.peak / measured.peak, 1, 0.01);
    EXPECT_EQ(memory.optimizer, 2 * memory.parameters);
  }
}

// As above, without gradients.
TEST(TransformerTraining, MemoryOfForwardIsNearTheMeasured) {
  struct Measured {
    TrainingImplementation implementation;
    Dtype compute;
    double context;
    double peak;  // beside the parameters
  };
  constexpr Measured kMeasured[] = {
      {TrainingImplementation::kEager, Dtype::kFp32, 128, 41001984},
      {TrainingImplementation::kEager, Dtype::kBf16, 128, 51241992},
      {TrainingImplementation::kEager, Dtype::kBf16, 256, 102483944},
      {TrainingImplementation::kNative, Dtype::kFp32, 128, 26780664},
      {TrainingImplementation::kNative, Dtype::kFp32, 256, 53561304},
      {TrainingImplementation::kNative, Dtype::kBf16, 128, 28265080},
      {TrainingImplementation::kNative, Dtype::kBf16, 256, 40906328},
  };
  for (const Measured& measured : kMeasured) {
    const TransformerTraining work{.shape = *FindTransformer("small"),
                                   .batch = 4,
                                   .context = measured.context,
                                   .compute = measured.compute,
                                   .implementation = measured.implementation};
    const TrainingMemory memory = work.Memory(TrainingMode::kForward);
    EXPECT_NEAR((memory.peak - memory.parameters) / measured.peak, 1, 0.02)
        << Name(measured.compute) << " " << measured.context;
    EXPECT_EQ(memory.gradients + memory.optimizer + memory.activations, 0);
  }
}

}  // namespace
}  // namespace roofbench::workload
