// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/llm_int8.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(LlmInt8Linear, CountsByHand) {
  const Cost cost = LlmInt8Linear{.m = 2, .n = 3, .k = 5, .outlier_columns = 1}.FusedCost();
  EXPECT_EQ(cost.Flops(Dtype::kInt8), 2 * 2 * 3 * 5);
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 2 * 2 * 3);
  EXPECT_EQ(cost.Flops(), 60 + 12);
  EXPECT_EQ(cost.BytesRead(), 3 * 5 + 3 * 4 + 2 * 5 * 2);
  EXPECT_EQ(cost.BytesWritten(), 2 * 3 * 2);
  EXPECT_EQ(cost.resident_bytes, 15 + 12 + 20 + 12 + 2 * 5);
}

TEST(LlmInt8Linear, StagesNeedMemoryAndNoMoreWork) {
  const LlmInt8Linear shape{.m = 64, .n = 128, .k = 32};
  EXPECT_EQ(shape.StagedCost().Flops(), shape.FusedCost().Flops());
  EXPECT_EQ(shape.StagedCost().Bytes(), shape.FusedCost().Bytes());
  EXPECT_EQ(shape.StagedCost().resident_bytes - shape.Product().Bytes(), 13 * 64 * 32 + 18 * 64 * 128);
  const LlmInt8Linear narrow{.m = 64, .n = 8, .k = 32};
  EXPECT_EQ(narrow.StagedCost().resident_bytes - narrow.Product().Bytes(), 21 * 64 * 32);
}

}  // namespace
}  // namespace roofbench::workload
