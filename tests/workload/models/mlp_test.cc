// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/mlp.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

constexpr double kProduct = 2.0 * 8 * 16 * 16;  // one layer's product at batch 8, width 16

Mlp Small(Dtype dtype) { return {.batch = 8, .width = 16, .layers = 3, .compute = dtype}; }

TEST(Mlp, ParametersAreWeightsAndBiases) { EXPECT_EQ(Small(Dtype::kFp32).Parameters(), 3 * (256 + 16)); }

TEST(Mlp, ForwardIsAProductALayer) {
  const Cost cost = Small(Dtype::kBf16).ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 3 * kProduct);
}

TEST(Mlp, BackwardNeedsNoGradientOfTheInput) {
  // dW of every layer, dX of all but the first.
  EXPECT_EQ(Small(Dtype::kBf16).BackwardCost().Flops(Dtype::kBf16), 5 * kProduct);
  const Mlp one{.batch = 8, .width = 16, .layers = 1, .compute = Dtype::kBf16};
  EXPECT_EQ(one.BackwardCost().Flops(Dtype::kBf16), kProduct);
}

TEST(Mlp, TrainingRepeatsForwardAndBackward) {
  const Mlp mlp = Small(Dtype::kBf16);
  EXPECT_EQ(mlp.TrainingCost(5).Flops(Dtype::kBf16), 5 * 8 * kProduct);
  EXPECT_EQ(mlp.TrainingCost(5).resident_bytes, mlp.ResidentBytes());
}

TEST(Mlp, AutocastReadsTheFp32WeightsToo) {
  // The casts forward read 4 and write 2 bytes a parameter, and those of the input.
  const double casts = Small(Dtype::kBf16).ForwardCost().operations[2].Bytes();
  EXPECT_EQ(casts, 3 * (256 + 16) * 6);
  EXPECT_EQ(Small(Dtype::kFp32).ForwardCost().operations.size(), 2);
}

}  // namespace
}  // namespace roofbench::workload
