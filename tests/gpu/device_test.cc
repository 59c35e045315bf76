// SPDX-License-Identifier: Apache-2.0
// The device's facts, roofs, memory and precisions on a real GPU.

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/aten/precision_scopes.h"
#include "lib/observe/peak_memory.h"
#include "lib/timing/statistics.h"
#include "tests/gpu/gpu_test.h"

namespace roofbench {
namespace {

using workload::Dtype;

class DeviceTest : public GpuTest {};

TEST_F(DeviceTest, HasFacts) {
  const GpuFacts& facts = gpu().facts();
  std::printf("%s, sm_%d%d, %d multiprocessors, L2 %.0f MiB, memory %.1f GiB\n", facts.name.c_str(),
              facts.compute_major, facts.compute_minor, facts.multiprocessors, facts.l2_bytes / (1 << 20),
              facts.memory_bytes / (1 << 30));
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GT(facts.l2_bytes, 0);
  EXPECT_GT(device().FreeMemoryBytes(), 0);
  EXPECT_LE(device().FreeMemoryBytes(), facts.memory_bytes);
  for (const auto& [key, value] : device().Context()) std::printf("  %s: %s\n", key.c_str(), value.c_str());
}

TEST_F(DeviceTest, RoofsAreSane) {
  device().Calibrate(hardware::StreamsAnd({Dtype::kFp32, Dtype::kTf32, Dtype::kBf16}));
  const workload::Peaks& peaks = device().MeasuredPeaks();
  EXPECT_THAT(device().Context(), testing::Contains(testing::Pair("gpu_probe_fault", "none")));
  for (const double rate : {peaks.read, peaks.copy, peaks.update, peaks.write}) EXPECT_GT(rate, 1e9);
  EXPECT_GT(peaks.flops_per_second[Index(Dtype::kFp32)], 1e11);
  if (device().Supports(Dtype::kTf32).ok()) {
    EXPECT_GT(peaks.flops_per_second[Index(Dtype::kTf32)], peaks.flops_per_second[Index(Dtype::kFp32)]);
  }
  if (device().datasheet() == nullptr) return;
  const workload::Peaks& sheet = device().datasheet()->peaks;
  for (const double rate : {peaks.read, peaks.copy, peaks.update, peaks.write}) {
    EXPECT_LT(rate, 1.02 * sheet.read);
    EXPECT_GT(rate, 0.6 * sheet.read);
  }
  const double bf16 = peaks.flops_per_second[Index(Dtype::kBf16)] / sheet.flops_per_second[Index(Dtype::kBf16)];
  EXPECT_LT(bf16, 1.05);
  EXPECT_GT(bf16, 0.5);
}

TEST_F(DeviceTest, DisplacedOperandsComeFromMemory) {
  ASSERT_TRUE(device().DisplaceCache().ok());
  const auto bytes = static_cast<int64_t>(device().LastLevelCacheBytes() / 4);
  const at::Tensor x = at::ones({bytes / 4}, at::TensorOptions(device().torch_device()));
  at::Tensor y = x.sum();
  const auto seconds = [&](bool displaced) {
    std::vector<double> readings;
    for (int i = 0; i < 20; ++i) {
      device().clock().BeginChunk(2);
      if (displaced) device().DisplaceCache().IgnoreError();
      device().clock().Mark();
      at::sum_out(y, x, at::OptionalIntArrayRef());
      device().clock().Mark();
      readings.push_back(device().clock().EndChunk()[1]);
    }
    return timing::Median(readings);
  };
  EXPECT_GT(seconds(true), 1.1 * seconds(false));
}

TEST_F(DeviceTest, Tf32IsAPropertyOfTheCase) {
  if (!device().Supports(Dtype::kTf32).ok()) GTEST_SKIP() << "no tf32 here";
  const at::Tensor a = at::randn({512, 512}, at::TensorOptions(device().torch_device()));
  const at::Tensor exact = at::mm(a.to(at::kDouble), a.to(at::kDouble));
  const auto error = [&](bool tf32) {
    const Fp32Scope scope(tf32);
    return at::mm(a, a).to(at::kDouble).sub(exact).abs().max().item<double>() / exact.abs().max().item<double>();
  };
  EXPECT_LT(error(false), 1e-5);
  EXPECT_GT(error(true), 1e-5);
}

TEST_F(DeviceTest, PeakMemoryIsThatOfTheAllocator) {
  observe::PeakMemory observed;
  gpu().ResetPeak();
  const double before = gpu().PeakBytes();
  observed.ResetPeak();
  {
    const at::Tensor x = at::ones({1 << 22}, at::TensorOptions(device().torch_device()));
    const at::Tensor y = x.add(1);
  }
  const double peak = gpu().PeakBytes() - before;
  EXPECT_GE(peak, 2.0 * 4 * (1 << 22));
  EXPECT_NEAR(observed.PeakBytes(), peak, 1 << 20) << "blocks are rounded up";
}

TEST_F(DeviceTest, TheAllocatorIsEmptiedAfterACase) {
  const double before = device().FreeMemoryBytes();
  { const at::Tensor x = at::ones({1 << 26}, at::TensorOptions(device().torch_device())); }
  device().AfterCase();
  EXPECT_NEAR(device().FreeMemoryBytes(), before, 64 << 20);
}

}  // namespace
}  // namespace roofbench
