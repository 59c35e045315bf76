// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gemv.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Gemv, CountsByHand) {
  const Cost cost = Gemv{.n = 3, .k = 4, .format = WeightFormat::kBf16}.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 24);
  EXPECT_EQ(cost.Flops(), 24);
  EXPECT_EQ(cost.BytesRead(), (12 + 4) * 2);
  EXPECT_EQ(cost.BytesWritten(), 3 * 2);
  EXPECT_EQ(cost.resident_bytes, 19 * 2);
}

TEST(Gemv, QuantizedWeightsBringTheirScales) {
  // Activations are bf16, and so is the product.
  const Cost int8 = Gemv{.n = 8, .k = 64, .format = WeightFormat::kInt8}.ForwardCost();
  EXPECT_EQ(int8.Flops(Dtype::kBf16), 2 * 8 * 64);
  EXPECT_EQ(int8.BytesRead(), 8 * 64 + 8 * 4 + 64 * 2);
  const Cost int4 = Gemv{.n = 8, .k = 64, .format = WeightFormat::kInt4, .group = 32}.ForwardCost();
  EXPECT_EQ(int4.BytesRead(), 8 * (32 + 2 * 4) + 64 * 2);
}

TEST(Gemv, ABatchSharesTheWeights) {
  const Gemv one{.n = 8, .k = 64, .format = WeightFormat::kBf16};
  Gemv four = one;
  four.batch = 4;
  EXPECT_EQ(four.Forward().Flops(), 4 * one.Forward().Flops());
  EXPECT_EQ(four.Forward().bytes_read - one.Forward().bytes_read, 3 * 64 * 2);
  EXPECT_EQ(four.Forward().bytes_written, 4 * one.Forward().bytes_written);
}

TEST(GatherGemv, ReadsTheChosenExpertsAndHoldsAll) {
  const GatherGemv gather{.expert = {.n = 8, .k = 64, .format = WeightFormat::kBf16}, .chosen = 2, .experts = 8};
  const Cost cost = gather.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 4 * 8 * 64);
  EXPECT_EQ(cost.BytesRead(), 2 * 8 * 64 * 2 + 64 * 2);
  EXPECT_EQ(cost.BytesWritten(), 2 * 8 * 2);
  EXPECT_EQ(cost.resident_bytes, 8 * 8 * 64 * 2 + 64 * 2 + 32);
}

}  // namespace
}  // namespace roofbench::workload
