// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_gauge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::HasSubstr;

constexpr double kKibi = 1024;
constexpr double kMebi = 1024 * kKibi;
constexpr double kGibi = 1024 * kMebi;
constexpr double kMemoryRate = 50e9;
constexpr double kCacheRate = 200e9;
constexpr double kMost = 320 * kMebi;

// A machine of one cache, which serves a working set beyond it in part: by the share that it holds.
class OneCache : public RoofMeter {
 public:
  OneCache(double real_bytes, double claimed_bytes)
      : RoofMeter(/*roof_by_roof=*/false), real_bytes_(real_bytes), claimed_bytes_(claimed_bytes) {}

  double ServedRate(double working_set) const {
    const double held = std::clamp(2 - working_set / real_bytes_, 0.0, 1.0);
    return 1 / (held / kCacheRate + (1 - held) / kMemoryRate);
  }
  double LastLevelCacheBytes() const override { return claimed_bytes_; }
  double MostWorkingSet() override { return kMost; }

  double pace = 1;  // of memory alone

 protected:
  std::vector<Candidate> StreamCandidates(StreamKind kind) override {
    return {{.roof = std::string(Name(kind)), .variant = "fake", .measure = [](double) { return kMemoryRate; }}};
  }
  void Choose(StreamKind, const Candidate&) override {}
  Rates MeasureStreams(const StreamShares&, double) override { return {.wall = pace * kMemoryRate}; }
  double MeasureStreamsInCache(const StreamShares&, double working_set, double) override {
    EXPECT_LE(working_set, kMost);
    return std::max(pace * kMemoryRate, ServedRate(working_set));
  }

 private:
  const double real_bytes_;
  const double claimed_bytes_;
};

workload::Cost Read(double bytes) { return {.operations = {{.bytes_read = bytes}}, .resident_bytes = bytes}; }

RoofGauge Warm(RoofMeter& meter, double bytes) {
  RoofGauges gauges;
  return gauges.For(Read(bytes), CacheState::kWarm, meter);
}

// A case that runs as fast as its operands are served has its roof, whatever its size, and a size more makes no jump.
TEST(RoofGauges, AWarmCaseIsComparedWithAWorkingSetOfItsSize) {
  OneCache meter(32 * kMebi, 32 * kMebi);
  for (double bytes = 16 * kKibi; bytes < 4 * kGibi; bytes *= 1.1) {
    const RoofGauge gauge = Warm(meter, bytes);
    EXPECT_NEAR(gauge.probe(1e-3), meter.ServedRate(bytes), 1e-6 * kMemoryRate) << bytes;
    EXPECT_NEAR(gauge.SecondsAt(Read(bytes), gauge.probe(1e-3)), bytes / meter.ServedRate(bytes), 1e-9) << bytes;
    EXPECT_NEAR(gauge.calibrated_rate, meter.ServedRate(bytes), 1e-6 * kMemoryRate) << bytes;
  }
}

// Where caches help little, probes of memory follow its speed.
TEST(RoofGauges, AWorkingSetThatMemoryServesIsProbedAsMemory) {
  OneCache meter(32 * kMebi, 32 * kMebi);
  const double bytes = 61 * kMebi;
  const double gain = meter.ServedRate(bytes) / kMemoryRate;
  ASSERT_GT(gain, 1.01);
  ASSERT_LT(gain, 1.25);
  const RoofGauge gauge = Warm(meter, bytes);
  EXPECT_EQ(gauge.name, "memory");
  meter.pace = 1.5;
  EXPECT_NEAR(gauge.probe(1e-3), 1.5 * gain * kMemoryRate, 1);
}

TEST(RoofGauges, ACacheThatOnlyTheFirmwareKnowsServesNothing) {
  OneCache meter(32 * kMebi, 480 * kMebi);
  for (const double bytes : {100 * kMebi, 400 * kMebi, 1 * kGibi}) {
    const RoofGauge gauge = Warm(meter, bytes);
    EXPECT_EQ(gauge.name, "memory");
    EXPECT_EQ(gauge.probe(1e-3), kMemoryRate);
  }
}

// The probes' buffers lie in such a cache, so that their rate is an upper bound until almost nothing survives a lap.
TEST(RoofGauges, OfALargeCacheTheRateIsAnUpperBound) {
  OneCache meter(480 * kMebi, 480 * kMebi);
  EXPECT_EQ(Warm(meter, 600 * kMebi).probe(1e-3), kCacheRate);
  EXPECT_EQ(Warm(meter, 4 * kGibi).probe(1e-3), kMemoryRate);
}

TEST(RoofGauges, ACacheThatNobodyNamesServesAllTheSame) {
  OneCache meter(32 * kMebi, 0);
  EXPECT_EQ(Warm(meter, 64 * kKibi).probe(1e-3), kCacheRate);
  EXPECT_THAT(Warm(meter, 64 * kKibi).name, HasSubstr("64 KiB"));
  EXPECT_EQ(Warm(meter, 4 * kGibi).probe(1e-3), kMemoryRate);
}

TEST(RoofGauges, AColdCaseIsComparedWithMemory) {
  OneCache meter(32 * kMebi, 32 * kMebi);
  RoofGauges gauges;
  meter.Calibrate(NeedsOf(Read(1)), 1e-3);
  EXPECT_EQ(gauges.For(Read(64 * kKibi), CacheState::kCold, meter).probe(1e-3), kMemoryRate);
}

}  // namespace
}  // namespace roofbench::hardware
