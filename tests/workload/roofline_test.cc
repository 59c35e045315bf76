// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/roofline.h"

#include <gtest/gtest.h>

#include "lib/workload/operators/products.h"

namespace roofbench::workload {
namespace {

Peaks Machine() {
  Peaks peaks{.read = 100, .copy = 80, .update = 50, .write = 40};
  peaks.flops_per_second[Index(Dtype::kFp32)] = 1000;
  peaks.flops_per_second[Index(Dtype::kBf16)] = 2000;
  return peaks;
}

Cost Arithmetic(Dtype dtype, double flops) {
  Operation operation;
  operation.flops[Index(dtype)] = flops;
  return {.operations = {operation}};
}

TEST(Roofline, PairsWritesWithReadsAtTheCopyRate) {
  // 60 read and 20 written: 20 are copied (40 bytes of traffic at 80), 40 are read alone at 100.
  EXPECT_DOUBLE_EQ(*MemorySeconds({.operations = {{.bytes_read = 60, .bytes_written = 20}}}, Machine()), 0.5 + 0.4);
  // 10 read and 30 written: 10 are copied (20 at 80), 20 are written alone at 40.
  EXPECT_DOUBLE_EQ(*MemorySeconds({.operations = {{.bytes_read = 10, .bytes_written = 30}}}, Machine()), 0.25 + 0.5);
  // 25 updated in place: 50 bytes of traffic at 50.
  EXPECT_DOUBLE_EQ(*MemorySeconds({.operations = {{.bytes_updated = 25}}}, Machine()), 1.0);
}

TEST(Roofline, AddsPrecisionsWithinAnOperation) {
  Operation mixed;
  mixed.flops[Index(Dtype::kFp32)] = 500;
  mixed.flops[Index(Dtype::kBf16)] = 3000;
  EXPECT_DOUBLE_EQ(*ComputeSeconds({.operations = {mixed}}, Machine()), 0.5 + 1.5);
}

TEST(Roofline, TakesTheSlowerRoofOfEachOperation) {
  Operation compute_bound{.bytes_read = 100};
  compute_bound.flops[Index(Dtype::kFp32)] = 3000;
  Operation memory_bound{.bytes_read = 500, .repeat = 2};
  memory_bound.flops[Index(Dtype::kFp32)] = 1000;
  // max(3, 1) + 2 · max(1, 5); the sums alone would give max(5, 11) = 11.
  const Cost cost{.operations = {compute_bound, memory_bound}};
  EXPECT_DOUBLE_EQ(*RoofSeconds(cost, Machine()), 13);
  EXPECT_EQ(BindingRoof(cost, Machine()), Bound::kMemory);
  EXPECT_EQ(BindingRoof({.operations = {compute_bound}}, Machine()), Bound::kCompute);
}

TEST(Roofline, UnknownPeaksGiveNoAnswer) {
  EXPECT_EQ(RoofSeconds(Arithmetic(Dtype::kInt8, 1), Machine()), std::nullopt);
  EXPECT_EQ(MemorySeconds({.operations = {{.bytes_read = 1}}}, Peaks{}), std::nullopt);
  EXPECT_EQ(RoofSeconds(Cost{}, Machine()), std::nullopt);
  // A peak that is not needed may be unknown.
  EXPECT_TRUE(RoofSeconds(Arithmetic(Dtype::kFp32, 1), Machine()).has_value());
}

TEST(Roofline, ScalingOneKindOfPeakLeavesTheOther) {
  const Cost memory{.operations = {{.bytes_read = 100}}};
  const Cost compute = Arithmetic(Dtype::kFp32, 1000);
  const Peaks half = Machine().Scaled(Bound::kMemory, 0.5);
  EXPECT_DOUBLE_EQ(*RoofSeconds(memory, half), 2);
  EXPECT_DOUBLE_EQ(*RoofSeconds(compute, half), 1);
  EXPECT_DOUBLE_EQ(*RoofSeconds(compute, Machine().Scaled(Bound::kCompute, 2)), 0.5);
}

TEST(Roofline, DominantPrecisionIsTheOneThatTakesTheTime) {
  Operation mixed;
  mixed.flops[Index(Dtype::kFp32)] = 900;   // 0.9 s
  mixed.flops[Index(Dtype::kBf16)] = 1000;  // 0.5 s
  EXPECT_EQ(DominantDtype({.operations = {mixed}}, Machine()), Dtype::kFp32);
  EXPECT_EQ(DominantDtype(Arithmetic(Dtype::kInt8, 1), Machine()), Dtype::kInt8);
  EXPECT_EQ(DominantDtype({.operations = {{.bytes_read = 1}}}, Machine()), std::nullopt);
}

TEST(Roofline, BalanceOfAGemmMatchesTheTextbook) {
  // n = 1024 in bf16 on an A100: 2·1024³ / 312e12 = 6.88 us of arithmetic, 3·1024²·2 / 1.555e12 = 4.05 us of traffic.
  std::array<double, kDtypeCount> flops{};
  flops[Index(Dtype::kBf16)] = 312e12;
  const Peaks a100 = UniformPeaks(flops, 1.555e12);
  const Cost cost = Gemm{.m = 1024, .n = 1024, .k = 1024, .dtype = Dtype::kBf16}.ForwardCost();
  EXPECT_NEAR(*ComputeSeconds(cost, a100), 6.883e-6, 1e-9);
  EXPECT_NEAR(*MemorySeconds(cost, a100), 4.046e-6, 1e-9);
  EXPECT_EQ(BindingRoof(cost, a100), Bound::kCompute);
}

}  // namespace
}  // namespace roofbench::workload
