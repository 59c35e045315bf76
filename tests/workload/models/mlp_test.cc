// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/workload/models/mlp.h"

namespace roofbench::workload {
namespace {

constexpr double kProduct = 2.0 * 8 * 16 * 16;  // one layer's product at batch 8, width 16

Mlp Small(Dtype dtype) { return {.batch = 8, .width = 16, .layers = 3, .compute = dtype}; }

TEST(Mlp, CountsProductsByHand) {
  const Mlp mlp = Small(Dtype::kBf16);
  EXPECT_EQ(mlp.Parameters(), 3 * (256 + 16));
  EXPECT_EQ(mlp.ForwardCost().Flops(Dtype::kBf16), 3 * kProduct);
  // dW of every layer, dX of all but the first.
  EXPECT_EQ(mlp.BackwardCost().Flops(Dtype::kBf16), 5 * kProduct);
  const Mlp one{.batch = 8, .width = 16, .layers = 1, .compute = Dtype::kBf16};
  EXPECT_EQ(one.BackwardCost().Flops(Dtype::kBf16), kProduct);
  EXPECT_EQ(mlp.TrainingCost(5).Flops(Dtype::kBf16), 5 * 8 * kProduct);
  EXPECT_EQ(mlp.TrainingCost(5).resident_bytes, mlp.ResidentBytes());
}

TEST(Mlp, AutocastReadsTheFp32WeightsToo) {
  // The forward casts read 4 and write 2 bytes for each parameter, and for each element of the input.
  const double casts = Small(Dtype::kBf16).ForwardCost().operations[2].Bytes();
  EXPECT_EQ(casts, 3 * (256 + 16) * 6);
  EXPECT_EQ(Small(Dtype::kFp32).ForwardCost().operations.size(), 2);
}

// Bytes that LibTorch 2.11 had at the peak of a step on a CPU.
TEST(Mlp, ResidentBytesAreThoseThatWereMeasured) {
  const struct {
    double layers, batch, width;
    Dtype compute;
    double measured;
  } table[] = {{4, 256, 256, Dtype::kFp32, 4199424},   {20, 256, 256, Dtype::kFp32, 16798720},
               {4, 1280, 256, Dtype::kFp32, 15733760}, {4, 256, 512, Dtype::kFp32, 11024384},
               {4, 256, 1280, Dtype::kFp32, 57712640}, {4, 256, 512, Dtype::kBf16, 10501120},
               {4, 256, 768, Dtype::kBf16, 22436352},  {4, 256, 1280, Dtype::kBf16, 59676160}};
  for (const auto& [layers, batch, width, compute, measured] : table) {
    const Mlp mlp{.batch = batch, .width = width, .layers = layers, .compute = compute};
    EXPECT_NEAR(mlp.ResidentBytes(), measured, 1e-3 * measured) << layers << " " << batch << " " << width;
  }
}

TEST(MlpLayerNorm, CountsByHand) {
  const MlpLayerNorm work{.batch = 2, .width = 3, .hidden = 5};
  EXPECT_EQ(work.Parameters(), 15 + 5 + 10 + 15 + 3 + 6);
  const Cost cost = work.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 2 * 2 * (15 + 15));
  EXPECT_EQ(cost.Flops(Dtype::kFp32), 8 * 2 * (5 + 3));
  // Every parameter once; the input of each of the four layers, and its output.
  EXPECT_EQ(cost.BytesRead(), 2 * (work.Parameters() + 2 * (3 + 5 + 5 + 3)));
  EXPECT_EQ(cost.BytesWritten(), 2 * 2 * (5 + 5 + 3 + 3));
}

TEST(MlpLayerNorm, TheGeluIsOneMoreOperationOverTheHiddenLayer) {
  MlpLayerNorm work{.batch = 2, .width = 3, .hidden = 5};
  const double before = work.ForwardCost().Bytes();
  work.gelu = true;
  EXPECT_EQ(work.ForwardCost().Bytes() - before, 2 * 2 * 2 * 5);
  EXPECT_EQ(work.ForwardCost().operations.size(), 5);
}

// The published target of "0.8 utilization" multiplies time by FLOPs; one row reads two bytes per multiply-add.
TEST(MlpLayerNorm, OneRowIsBoundByItsWeights) {
  const Cost cost = MlpLayerNorm{.width = 8192, .hidden = 14336}.ForwardCost();
  EXPECT_NEAR(cost.Flops() / cost.Bytes(), 1.0, 0.01);
}

}  // namespace
}  // namespace roofbench::workload
