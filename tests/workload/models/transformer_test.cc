// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/workload/models/transformer.h"
#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/rows.h"

namespace roofbench::workload {
namespace {

TEST(Transformer, ParametersByHand) {
  const Transformer tiny{.d_model = 8, .d_ff = 24, .layers = 2, .heads = 4, .vocab = 11};
  const TransformerParameters count = tiny.Parameters();
  EXPECT_EQ(count.embedding, 88);
  EXPECT_EQ(count.attention, 2 * 4 * 64);
  EXPECT_EQ(count.feed_forward, 2 * 3 * 8 * 24);
  EXPECT_EQ(count.norms, 5 * 8);
  EXPECT_EQ(count.head, 88);
  EXPECT_EQ(count.Total(), 88 + 512 + 1152 + 40 + 88);
  EXPECT_EQ(count.matmul, 512 + 1152 + 88);
}

TEST(Transformer, GroupedQueriesAndATiedHeadSaveParameters) {
  const Transformer tiny{
      .d_model = 8, .d_ff = 24, .layers = 2, .heads = 4, .vocab = 11, .kv_heads = 2, .tied_head = true};
  const TransformerParameters count = tiny.Parameters();
  EXPECT_EQ(count.attention, 2 * (2 * 64 + 2 * 8 * 4));
  EXPECT_EQ(count.head, 0);
  EXPECT_EQ(count.matmul, count.attention + count.feed_forward + 88);
}

// The sizes as they are published with the assignment, in millions.
TEST(Transformer, PresetsHaveTheirPublishedSizes) {
  const std::pair<const char*, double> kMillions[] = {{"small", 128.6}, {"medium", 423.2}, {"large", 969.4},
                                                      {"xl", 1998.2},   {"2.7B", 3406.8},  {"xl_2026", 3406.8},
                                                      {"10B", 12832.7}};
  for (const auto& [name, millions] : kMillions) {
    const auto shape = FindTransformer(name);
    ASSERT_TRUE(shape) << name;
    EXPECT_NEAR(shape->Parameters().Total() / 1e6, millions, 1) << name;
    EXPECT_EQ(shape->HeadDim() * shape->heads, shape->d_model) << name;
  }
  EXPECT_FALSE(FindTransformer("huge"));
}

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
    EXPECT_DOUBLE_EQ(work.Backward().Flops(Dtype::kBf16), 2 * work.ForwardMatmulFlops());
    EXPECT_EQ(work.Optimizer().Flops(Dtype::kBf16), 0);
  }
}

TEST(TransformerTraining, OptimizerBytes) {
  TransformerTraining work = Tiny();
  EXPECT_EQ(work.Optimizer().Bytes(), 28 * kTiny.Parameters().Total());
  work.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(work.Optimizer().Bytes(), 12 * kTiny.Parameters().Total());
}

// The same work costs the same in a model as in a single operator.
TEST(TransformerTraining, ElementWiseFlopsAreTheOperators) {
  const TransformerTraining work = Tiny();
  const AdamW adamw{.parameters = kTiny.Parameters().Total()};
  EXPECT_EQ(work.Optimizer().Flops(), adamw.StepCost().Flops());
  TransformerTraining wider = work;
  wider.shape.d_ff += 1;
  const double products = wider.ForwardMatmulFlops() - work.ForwardMatmulFlops();
  const SiluMul gate{.elements = work.Tokens() * kTiny.layers};
  EXPECT_EQ(wider.Forward().Flops() - work.Forward().Flops(), products + gate.ForwardCost().Flops());
}

TEST(TransformerTraining, ModesAddUp) {
  const TransformerTraining work = Tiny();
  for (const TrainingMode mode : {TrainingMode::kInference, TrainingMode::kForward}) {
    EXPECT_EQ(work.Step(mode).Flops(), work.Forward().Flops());
    EXPECT_EQ(work.Step(mode).Bytes(), work.Forward().Bytes());
  }
  EXPECT_EQ(work.Step(TrainingMode::kForwardBackward).Bytes(), work.Forward().Bytes() + work.Backward().Bytes());
  EXPECT_EQ(work.Step(TrainingMode::kStep).Bytes(),
            work.Forward().Bytes() + work.Backward().Bytes() + work.Optimizer().Bytes());
}

TEST(TransformerTraining, PalmFlopsByTheirFormula) {
  const double n = kTiny.Parameters().Total();
  EXPECT_EQ(Tiny().PalmFlops(TrainingMode::kStep), 15 * (6 * n + 12 * 2 * 4 * 2 * 5));
  EXPECT_EQ(Tiny().PalmFlops(TrainingMode::kForward), 15 * (2 * n + 4 * 2 * 4 * 2 * 5));
  EXPECT_EQ(Tiny().PalmFlops(TrainingMode::kInference), Tiny().PalmFlops(TrainingMode::kForward));
}

constexpr auto kEager = TrainingImplementation::kEager;
constexpr auto kNative = TrainingImplementation::kNative;
constexpr auto kFused = AttentionKind::kFused;
constexpr auto kNaive = AttentionKind::kNaive;
constexpr auto kFp32 = Dtype::kFp32;
constexpr auto kBf16 = Dtype::kBf16;

// Bytes of tensors on a CPU (LibTorch 2.11).
struct Measured {
  TransformerTraining work;
  double activations;  // after inference: 0
  double peak;         // in addition to the parameters
};

void ExpectNear(TrainingMode mode, const std::vector<Measured>& rows, double activations, double peak) {
  for (const Measured& row : rows) {
    const TrainingMemory memory = row.work.Memory(mode);
    const std::string which = testing::PrintToString(&row - rows.data());
    EXPECT_NEAR(memory.activations, row.activations, activations * row.activations) << which;
    EXPECT_NEAR(memory.peak - memory.parameters, row.peak, peak * row.peak) << which;
    const bool steps = mode == TrainingMode::kStep;
    EXPECT_EQ(memory.optimizer, steps ? 2 * memory.parameters : 0);
    EXPECT_EQ(memory.gradients, steps ? memory.parameters : 0);
  }
}

TransformerTraining Small(TrainingImplementation implementation, Dtype compute, double context = 128) {
  return {.shape = *FindTransformer("small"),
          .batch = 4,
          .context = context,
          .compute = compute,
          .implementation = implementation};
}

TEST(TransformerTraining, MemoryIsNearTheMeasured) {
  const double parameters = 4 * Small(kEager, kFp32).shape.Parameters().Total();
  ExpectNear(TrainingMode::kStep,
             {{Small(kEager, kFp32), 535545864, 2120053188 - parameters},
              {Small(kEager, kBf16), 587868168, 2172375492 - parameters},
              {Small(kNative, kFp32), 401164292, 2059621376 - parameters},
              {Small(kNative, kBf16), 462120964, 2059621384 - parameters}},
             0.01, 0.01);
}

// In bf16 throughout, where the fp32 data that a composed norm keeps is a fifth of all.
TEST(TransformerTraining, MemoryInBf16IsNearTheMeasured) {
  constexpr Transformer kNarrow = {.d_model = 96, .d_ff = 160, .layers = 2, .heads = 3, .vocab = 70};
  constexpr Transformer kWide = {.d_model = 768, .d_ff = 3072, .layers = 2, .heads = 12, .vocab = 1000};
  constexpr Transformer kMiddle = {.d_model = 256, .d_ff = 512, .layers = 2, .heads = 4, .vocab = 1000};
  ExpectNear(TrainingMode::kStep,
             {{{kNarrow, 2, 64, kBf16, kBf16, kFused}, 1227780, 2124568},
              {{kNarrow, 2, 64, kBf16, kBf16, kNaive}, 1282052, 2178840},
              {{kNarrow, 2, 256, kBf16, kBf16, kFused}, 4911108, 6299416},
              {{kNarrow, 2, 256, kBf16, kBf16, kNaive}, 6406148, 7794456},
              {{kMiddle, 2, 128, kBf16, kBf16, kFused}, 7275524, 15632472},
              {{kWide, 1, 128, kBf16, kBf16, kFused}, 13509124, 123540056}},
             0.05, 0.1);
}

TEST(TransformerTraining, MemoryOfInferenceIsNearTheMeasured) {
  ExpectNear(TrainingMode::kInference,
             {{Small(kEager, kFp32), 0, 41001984},
              {Small(kEager, kBf16), 0, 51241992},
              {Small(kEager, kBf16, 256), 0, 102483944},
              {Small(kNative, kFp32), 0, 26780664},
              {Small(kNative, kFp32, 256), 0, 53561304},
              {Small(kNative, kBf16), 0, 28265080},
              {Small(kNative, kBf16, 256), 0, 40906328}},
             0, 0.02);
}

// At two layers of width 96, where the products are a large part: nothing follows forward, but all data for backward is
// alive at its end.
TEST(TransformerTraining, MemoryOfForwardIsNearTheMeasured) {
  const auto narrow = [](TrainingImplementation implementation, AttentionKind attention, Dtype compute) {
    return TransformerTraining{.shape = {.d_model = 96, .d_ff = 160, .layers = 2, .heads = 3, .vocab = 70},
                               .batch = 2,
                               .context = 256,
                               .compute = compute,
                               .attention = attention,
                               .implementation = implementation};
  };
  const std::vector<Measured> rows = {
      {narrow(kEager, kFused, kFp32), 7768072, 7952392},   {narrow(kEager, kFused, kBf16), 5917832, 6241024},
      {narrow(kEager, kNaive, kFp32), 10639368, 11384832}, {narrow(kEager, kNaive, kBf16), 7412872, 7736064},
      {narrow(kNative, kFused, kFp32), 5670916, 5713936},  {narrow(kNative, kFused, kBf16), 3683460, 3881728},
      {narrow(kNative, kNaive, kFp32), 9000964, 10467328}, {narrow(kNative, kNaive, kBf16), 5440644, 5871616}};
  ExpectNear(TrainingMode::kForward, rows, 0.04, 0.06);
  for (const Measured& row : rows) {
    EXPECT_EQ(row.work.Memory(TrainingMode::kForward).activations, row.work.Memory(TrainingMode::kStep).activations);
  }
}

// As measured at two layers, vocabulary 1000, batch 1, context 128.
TEST(TransformerTraining, ForeachHoldsADivisorForEveryParameter) {
  TransformerTraining work{.shape = *FindTransformer("small"), .batch = 1, .context = 128};
  work.shape.layers = 2;
  work.shape.vocab = 1000;
  const double fused = work.Memory(TrainingMode::kStep).peak;
  work.optimizer = OptimizerKind::kAdamWForeach;
  const TrainingMemory memory = work.Memory(TrainingMode::kStep);
  EXPECT_NEAR(memory.peak / 408e6, 1, 0.01);
  EXPECT_GT(memory.peak, fused);
  EXPECT_EQ(memory.optimizer, 2 * memory.parameters);
  EXPECT_EQ(work.Memory(TrainingMode::kForwardBackward).peak, fused - memory.optimizer);
}

TEST(TransformerTraining, TheMeanOfTheLogitsIsReadOnceAndKeepsNone) {
  TransformerTraining work{.shape = *FindTransformer("small"), .batch = 4, .context = 128};
  const double logits = work.Tokens() * work.shape.vocab;
  const workload::Cost loss[] = {work.Forward(), work.Backward()};
  const double kept = work.Memory(TrainingMode::kForward).activations;
  work.loss = LossKind::kMeanLogit;
  const workload::Cost mean[] = {work.Forward(), work.Backward()};
  EXPECT_EQ(mean[0].BytesRead(), loss[0].BytesRead());
  EXPECT_EQ(loss[0].Flops(Dtype::kFp32) - mean[0].Flops(Dtype::kFp32), (Softmax::kFlops - 1) * logits);
  EXPECT_EQ(loss[1].BytesRead() - mean[1].BytesRead(), 4 * logits);
  EXPECT_EQ(loss[1].BytesWritten(), mean[1].BytesWritten());
  EXPECT_EQ(kept - work.Memory(TrainingMode::kForward).activations, 4 * logits);
}

}  // namespace
}  // namespace roofbench::workload
