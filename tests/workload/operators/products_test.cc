// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/workload/operators/products.h"

namespace roofbench::workload {
namespace {

TEST(Gemm, CountsByHand) {
  // 2 x 3 times 3 x 4... m=2, n=4, k=3: 8 results of 3 multiply-adds.
  const Cost cost = Gemm{.m = 2, .n = 4, .k = 3, .dtype = Dtype::kFp32}.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kFp32), 48);
  EXPECT_EQ(cost.BytesRead(), (6 + 12) * 4);
  EXPECT_EQ(cost.BytesWritten(), 8 * 4);
  EXPECT_EQ(cost.resident_bytes, 26 * 4);
}

TEST(Gemm, Int8AccumulatesInto32Bits) {
  const Cost cost = Gemm{.m = 2, .n = 4, .k = 3, .dtype = Dtype::kInt8}.ForwardCost();
  EXPECT_EQ(cost.BytesRead(), 18);
  EXPECT_EQ(cost.BytesWritten(), 32);
}

TEST(Gemm, Fp8HasScalesAndResultsIn16Bits) {
  const Cost cost = Gemm{.m = 2, .n = 4, .k = 3, .dtype = Dtype::kFp8, .scales = 6}.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kFp8), 48);
  EXPECT_EQ(cost.Flops(), 48);
  EXPECT_EQ(cost.BytesRead(), 6 + 12 + 6 * 4);
  EXPECT_EQ(cost.BytesWritten(), 8 * 2);
}

// As traced on a processor: before the product, and after it.
TEST(Gemm, Fp8ConvertsOnAProcessor) {
  const Gemm flat{.m = 1, .n = 8, .k = 16, .dtype = Dtype::kFp8};
  EXPECT_EQ(flat.Fp8ConversionBytes(), 16 * 8 + 4 * (16 + 16 * 8) + 4 * 16 * 8);
  const Gemm tall{.m = 16, .n = 8, .k = 1, .dtype = Dtype::kFp8};
  EXPECT_EQ(tall.Fp8ConversionBytes(), 8 + 4 * (16 + 8) + (4 + 2) * 16 * 8);
}

TEST(Gemm, BackwardIsTwoProductsOfTheSameSize) {
  const Gemm gemm{.m = 2, .n = 4, .k = 3, .dtype = Dtype::kBf16};
  const auto [input, weight] = gemm.Backward();
  EXPECT_EQ(input.Flops(), gemm.Forward().Flops());
  EXPECT_EQ(weight.Flops(), gemm.Forward().Flops());
  EXPECT_EQ(input.bytes_written, 2 * 3 * 2);   // dA[2,3]
  EXPECT_EQ(weight.bytes_written, 3 * 4 * 2);  // dB[3,4]
  EXPECT_EQ(input.bytes_read, (2 * 4 + 4 * 3) * 2);
  EXPECT_EQ(weight.bytes_read, (3 * 2 + 2 * 4) * 2);
}

TEST(GroupedGemm, ReadsTheExpertsThatHaveRows) {
  const GroupedGemm one{.expert = {.m = 5, .n = 4, .k = 3, .dtype = Dtype::kBf16}, .chosen = 1, .experts = 1};
  EXPECT_EQ(one.ForwardCost().Bytes(), one.expert.ForwardCost().Bytes());
  GroupedGemm many = one;
  many.chosen = 6;
  many.experts = 8;
  EXPECT_EQ(many.ForwardCost().Flops(Dtype::kBf16), 2 * 5 * 4 * 3);
  EXPECT_EQ(many.ForwardCost().BytesRead(), (5 * 3 + 6 * 4 * 3) * 2);
  EXPECT_EQ(many.ForwardCost().BytesWritten(), 5 * 4 * 2);
  EXPECT_EQ(many.ForwardCost().resident_bytes, (5 * 3 + 8 * 4 * 3 + 5 * 4) * 2);
}

TEST(Fp8Linear, ReadsActivationsIn16Bits) {
  const Fp8Linear linear{.m = 2, .n = 4, .k = 3};
  const Cost cost = linear.ForwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kFp8), 48);
  EXPECT_EQ(cost.Flops(), 48);
  EXPECT_EQ(cost.BytesRead(), 2 * 3 * 2 + 4 * 3 + 4);
  EXPECT_EQ(cost.BytesWritten(), 2 * 4 * 2);
  EXPECT_EQ(cost.resident_bytes, cost.Bytes() + 2 * 3 * (4 + 1));
  Fp8Linear by_row = linear;
  by_row.row_scales = true;
  EXPECT_EQ(by_row.ForwardCost().BytesRead(), cost.BytesRead() + 3 * 4);
}

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
  // A tile of 16 rows, however few are used.
  const Cost int4 = Gemv{.n = 8, .k = 64, .format = WeightFormat::kInt4, .group = 32}.ForwardCost();
  EXPECT_EQ(int4.BytesRead(), 16 * (32 + 2 * 4) + 64 * 2);
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
