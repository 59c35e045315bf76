// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/rows.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Norm, ForwardReadsAndWritesEachElementOnce) {
  const Norm layer{.kind = NormKind::kLayer, .rows = 3, .cols = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(layer.Forward().bytes_read, 60 + 2 * 40) << "x, weight and bias";
  EXPECT_EQ(layer.Forward().bytes_written, 60);
  EXPECT_EQ(layer.ForwardCost().Flops(Dtype::kFp32), 8 * 30) << "arithmetic is in fp32";
  const Norm rms{.kind = NormKind::kRms, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(rms.Forward().bytes_read, 120 + 40) << "x and weight";
  EXPECT_EQ(rms.ForwardCost().resident_bytes, 120 + 40 + 120);
}

// About three halves of the forward traffic: x and dy in, dx out.
TEST(Norm, BackwardReadsTwoAndWritesOne) {
  const Norm layer{.kind = NormKind::kLayer, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(layer.Backward().bytes_read, 2 * 120 + 40 + 2 * 12);
  EXPECT_EQ(layer.Backward().bytes_written, 120 + 2 * 40);
  const Norm rms{.kind = NormKind::kRms, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(rms.Backward().bytes_read, 2 * 120 + 40 + 12);
  EXPECT_EQ(rms.Backward().bytes_written, 120 + 40);
  EXPECT_EQ(rms.BackwardCost().Flops(), 2 * 4 * 30);
}

// Compared with the peaks of LibTorch's allocations: 512 rows of 1024, in 2-byte elements of x (2026-11-23).
TEST(Norm, MemoryOfEagerOperatorsIsNearTheMeasured) {
  const auto elements = [](const Cost& cost) { return cost.resident_bytes / (2.0 * 512 * 1024); };
  const auto norm = [](NormKind kind, Dtype dtype) { return Norm{kind, 512, 1024, dtype}; };
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kBf16).EagerForwardCost(false)), 3.014, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kFp32).EagerForwardCost(false)), 6.012, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kBf16).EagerForwardCost(true)), 8.018, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kFp32).EagerForwardCost(true)), 8.010, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kFp32).EagerBackwardCost(true)), 14.014, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kFp32).EagerBackwardCost(false)), 6.028, 0.02);
}

}  // namespace
}  // namespace roofbench::workload
