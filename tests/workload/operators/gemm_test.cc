// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gemm.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace roofbench::workload
