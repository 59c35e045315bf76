// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/mlp_layer_norm.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

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

// The published target of "0.8 utilization" multiplies time by FLOPs; one row reads two bytes a multiply-add.
TEST(MlpLayerNorm, OneRowIsBoundByItsWeights) {
  const Cost cost = MlpLayerNorm{.width = 8192, .hidden = 14336}.ForwardCost();
  EXPECT_NEAR(cost.Flops() / cost.Bytes(), 1.0, 0.01);
}

}  // namespace
}  // namespace roofbench::workload
