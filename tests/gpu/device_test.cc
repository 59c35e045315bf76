// SPDX-License-Identifier: Apache-2.0
// The device's facts, roofs, memory and precisions on a real GPU.

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/aten/precision_scopes.h"
#include "lib/hardware/datasheet.h"
#include "lib/observe/peak_memory.h"
#include "lib/timing/statistics.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/roof_bounds.h"

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
  std::vector<Dtype> supported;
  std::ranges::copy_if(workload::kDtypes, std::back_inserter(supported),
                       [](Dtype dtype) { return device().Supports(dtype).ok(); });
  for (const Dtype dtype : supported) device().Calibrate(hardware::StreamsAnd({dtype}));
  const workload::Peaks& peaks = device().MeasuredPeaks();
  for (const auto& [name, rate] : workload::KnownRates(peaks)) {
    std::printf("  roof %s: %.4g\n", std::string(name).c_str(), rate);
  }
  EXPECT_THAT(device().Context(), testing::Contains(testing::Pair("gpu_probe_fault", "none")));
  const auto* const sheet = device().datasheet();
  EXPECT_THAT(ImplausibleRoofs(peaks, sheet == nullptr ? workload::Peaks() : sheet->peaks, supported),
              testing::IsEmpty());
}

// Without a GPU, too.
TEST(RoofBounds, FindWhatCannotBe) {
  const workload::Peaks& sheet = hardware::FindDatasheet("h200")->peaks;
  const std::vector<Dtype> all(workload::kDtypes.begin(), workload::kDtypes.end());
  workload::Peaks good = sheet;
  for (double& rate : good.flops_per_second) rate *= 0.7;
  for (double* rate : {&good.read, &good.copy, &good.update, &good.write}) *rate *= 0.9;
  EXPECT_THAT(ImplausibleRoofs(good, sheet, all), testing::IsEmpty());
  const auto changed = [&](double& rate, double share) {
    const double before = std::exchange(rate, rate * share);
    const auto found = ImplausibleRoofs(good, sheet, all);
    rate = before;
    return found;
  };
  for (const Dtype dtype : all) {
    double& rate = good.flops_per_second[Index(dtype)];
    const std::string name(Name(dtype));
    EXPECT_THAT(changed(rate, 0), testing::ElementsAre(name + " is unknown"));
    EXPECT_THAT(changed(rate, 0.5), testing::ElementsAre(testing::StartsWith(name + " 0.35")));
    EXPECT_THAT(changed(rate, 1.6), testing::ElementsAre(testing::StartsWith(name + " 1.12")));
  }
  for (double* rate : {&good.read, &good.copy, &good.update, &good.write}) {
    for (const double share : {0.0, 0.6, 1.2}) EXPECT_EQ(changed(*rate, share).size(), 1) << share;
  }
  EXPECT_THAT(ImplausibleRoofs(good, workload::Peaks(), all), testing::IsEmpty()) << "a GPU without a datasheet";
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
