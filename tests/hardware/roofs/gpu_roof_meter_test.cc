// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/gpu_roof_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/hardware/roofs/fake_gpu_streams.h"

namespace roofbench::hardware {
namespace {

using testing::HasSubstr;
using workload::Dtype;

constexpr double kL2 = 1 << 20;
constexpr double kMemory = 64 << 20;  // buffers of a tenth
constexpr double kProbe = 2e-3;

class GpuRoofMeterTest : public testing::Test {
 protected:
  GpuRoofMeterTest() : meter_(streams_, kL2, kMemory) {}
  FakeGpuStreams streams_;
  GpuRoofMeter meter_;
};

TEST_F(GpuRoofMeterTest, ThePeaksAreThoseOfTheFastestVariants) {
  meter_.AddComputeProbe(Dtype::kBf16, "slow", [](double) { return 1e12; });
  meter_.AddComputeProbe(Dtype::kBf16, "fast", [](double) { return 2e12; });
  meter_.AddComputeProbe(Dtype::kFp16, "unasked", [](double) { return 3e12; });
  meter_.Calibrate(StreamsAnd({Dtype::kBf16}), 10 * kProbe);
  EXPECT_EQ(meter_.fault(), "");
  EXPECT_NEAR(meter_.peaks().read, 4.4e9, 1);
  EXPECT_NEAR(meter_.peaks().copy, 3.3e9, 1);
  EXPECT_NEAR(meter_.peaks().update, 3.85e9, 1);
  EXPECT_NEAR(meter_.peaks().write, 2.2e9, 1);
  EXPECT_EQ(meter_.BestVariant(StreamKind::kRead), 1);
  EXPECT_EQ(meter_.peaks().flops_per_second[workload::Index(Dtype::kBf16)], 2e12);
  EXPECT_EQ(meter_.peaks().flops_per_second[workload::Index(Dtype::kFp16)], 0);
  EXPECT_EQ(meter_.MeasureCompute(Dtype::kBf16, kProbe), 2e12);
  EXPECT_EQ(meter_.MeasureCompute(Dtype::kInt8, kProbe), 0) << "unknown, not slow";
}

TEST_F(GpuRoofMeterTest, AMixTakesTheTimeOfItsStreams) {
  meter_.Calibrate(StreamsAnd({}), 10 * kProbe);
  // Half of the traffic read at 4.4 GB/s, half copied at 3.3 GB/s.
  EXPECT_NEAR(meter_.MeasureMemory({.read = 5, .copy = 5}, 10 * kProbe) / 1e9, 1 / (0.5 / 4.4 + 0.5 / 3.3), 0.05);
  EXPECT_NEAR(meter_.MeasureMemory({.update = 1}, kProbe), 3.85e9, 1);
  EXPECT_EQ(meter_.MeasureMemory({}, kProbe), 0);
}

TEST_F(GpuRoofMeterTest, AProbeTakesAboutTheTimeAskedFor) {
  meter_.Calibrate(StreamsAnd({}), 10 * kProbe);
  streams_.passes.clear();
  meter_.MeasureMemory({.read = 1}, 10 * kProbe);
  double bytes = 0;
  for (const GpuPass& pass : streams_.passes) bytes += static_cast<double>(pass.bytes);
  EXPECT_NEAR(bytes / 4.4e9, 10 * kProbe, kProbe);
}

TEST_F(GpuRoofMeterTest, PassesContinueWhereTheLastStopped) {
  meter_.Calibrate(StreamsAnd({}), kProbe);
  streams_.passes.clear();
  // Two buffers of 6.4 MB, a third of a lap each time: data is not reused before both buffers were read.
  std::set<const std::byte*> starts;
  for (int i = 0; i < 4; ++i) meter_.MeasureMemory({.read = 1}, 0.5e-3);
  for (const GpuPass& pass : streams_.passes) EXPECT_TRUE(starts.insert(pass.from).second);
}

TEST_F(GpuRoofMeterTest, TheCacheIsDisplacedByReadsOfMemoryThatItDoesNotHold) {
  meter_.Calibrate(StreamsAnd({}), kProbe);
  EXPECT_EQ(meter_.BestVariant(StreamKind::kRead), 1);
  streams_.passes.clear();
  meter_.MeasureMemory({.read = 1}, 0.5e-3);
  std::set<const std::byte*> starts = {streams_.passes.front().from};
  streams_.passes.clear();
  ASSERT_TRUE(meter_.DisplaceCache());
  double bytes = 0;
  for (const GpuPass& pass : streams_.passes) {
    bytes += static_cast<double>(pass.bytes);
    EXPECT_EQ(pass.kind, StreamKind::kRead);
    EXPECT_EQ(pass.variant, 0) << "not as a stream whose lines leave first";
  }
  EXPECT_GE(bytes, 4 * kL2);
  meter_.MeasureMemory({.read = 1}, 0.5e-3);
  for (const GpuPass& pass : streams_.passes) EXPECT_TRUE(starts.insert(pass.from).second);
}

TEST_F(GpuRoofMeterTest, ACacheIsNotDisplacedWithoutBuffers) {
  streams_.free_bytes = 1 << 10;
  EXPECT_FALSE(meter_.DisplaceCache());
  EXPECT_THAT(meter_.fault(), HasSubstr("no free memory"));
}

TEST_F(GpuRoofMeterTest, ACacheHasItsOwnRates) {
  meter_.Calibrate(StreamsAnd({}), kProbe);
  streams_.passes.clear();
  constexpr double working_set = kL2 / 4;
  EXPECT_GE(meter_.MostWorkingSet(), 2 * kL2);
  EXPECT_NEAR(meter_.MeasureCache({.read = 1}, working_set, 10 * kProbe), 3 * 4e9, 1e6);
  EXPECT_NEAR(meter_.MeasureCache({.copy = 1}, working_set, 10 * kProbe), 3 * 3e9, 1e6);
  for (const GpuPass& pass : streams_.passes) {
    EXPECT_LE(pass.bytes, kL2 / 4);
  }
  EXPECT_EQ(meter_.MeasureCache({}, working_set, kProbe), 0);
}

TEST_F(GpuRoofMeterTest, AWrongStreamDefinesNoRoof) {
  for (const StreamKind kind : kStreamKinds) {
    FakeGpuStreams streams;
    streams.broken = kind;
    GpuRoofMeter meter(streams, kL2, kMemory);
    meter.AddComputeProbe(Dtype::kFp32, "probe", [](double) { return 1e12; });
    meter.Calibrate(StreamsAnd({Dtype::kFp32}), kProbe);
    EXPECT_THAT(meter.fault(), HasSubstr(std::string(Name(kind))));
    EXPECT_EQ(meter.peaks().read, 0);
    EXPECT_EQ(meter.MeasureMemory({.read = 1}, kProbe), 0);
    EXPECT_EQ(meter.MeasureCache({.read = 1}, kL2 / 2, kProbe), 0);
    EXPECT_EQ(meter.peaks().flops_per_second[workload::Index(Dtype::kFp32)], 1e12) << "arithmetic is not concerned";
  }
}

TEST_F(GpuRoofMeterTest, BuffersShrinkToTheFreeMemory) {
  streams_.free_bytes = 8 << 20;
  meter_.Calibrate(StreamsAnd({}), kProbe);
  EXPECT_EQ(meter_.fault(), "");
  EXPECT_GT(meter_.peaks().read, 0);
}

TEST_F(GpuRoofMeterTest, BuffersAreLargeAgainstALaunch) {
  FakeGpuStreams streams;
  streams.free_bytes = 1e6;
  GpuRoofMeter meter(streams, 50e6, 80e9);
  EXPECT_NE(meter.CheckStreams(), "");
  ASSERT_GE(streams.asked.size(), 2);
  EXPECT_EQ(streams.asked[1], 2e9);
}

TEST_F(GpuRoofMeterTest, TheDeviceIsWarmBeforeItIsMeasured) {
  EXPECT_EQ(meter_.CheckStreams(), "");
  EXPECT_GE(streams_.busy, 0.2);
}

TEST_F(GpuRoofMeterTest, WithoutMemoryThereIsNoRoof) {
  streams_.free_bytes = 1 << 20;
  meter_.Calibrate(StreamsAnd({}), kProbe);
  EXPECT_THAT(meter_.fault(), HasSubstr("no free memory"));
  EXPECT_EQ(meter_.peaks().read, 0);
}

}  // namespace
}  // namespace roofbench::hardware
