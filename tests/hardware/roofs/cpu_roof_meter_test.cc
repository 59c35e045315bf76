// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/cpu_roof_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/roofs/compute_loops.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;
using workload::Index;

constexpr double kKibi = 1024;
constexpr double kMebi = 1024 * kKibi;
constexpr double kShort = 1e-4;

// Two cores with private caches and one shared cache.
CpuFacts Facts() {
  CpuFacts facts;
  facts.caches = {{.level = 1, .bytes = 32 * kKibi, .shared_by = 1, .instances = 2},
                  {.level = 2, .bytes = 1 * kMebi, .shared_by = 1, .instances = 2},
                  {.level = 3, .bytes = 8 * kMebi, .shared_by = 2, .instances = 1}};
  return facts;
}

double Flops(const CpuRoofMeter& meter, Dtype dtype) { return meter.peaks().flops_per_second[Index(dtype)]; }

TEST(CpuRoofMeter, CalibrateReadsEveryVariant) {
  CpuRoofMeter meter(Facts(), 2);
  for (const StreamKind kind : kStreamKinds) EXPECT_EQ(meter.BestStream(kind).kind, kind) << "the first of each";
  meter.Calibrate(StreamsAnd({Dtype::kFp32, Dtype::kFp32, Dtype::kTf32}), kShort);

  std::set<std::pair<std::string, std::string>> expected;
  for (const StreamVariant& variant : StreamVariants()) expected.emplace(Name(variant.kind), variant.name);
  for (const ComputeLoop& loop : ComputeLoops()) {
    if (loop.dtype == Dtype::kFp32) expected.emplace("fp32", loop.name);
  }
  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, std::vector<RoofReading>> best;
  for (const RoofReading& reading : meter.readings()) {
    EXPECT_TRUE(seen.emplace(reading.roof, reading.variant).second) << reading.variant;
    EXPECT_GT(reading.rate, 0) << reading.variant;
    if (reading.best) best[reading.roof].push_back(reading);
  }
  EXPECT_EQ(seen, expected);

  EXPECT_EQ(best.size(), 5);
  for (const auto& [roof, readings] : best) ASSERT_EQ(readings.size(), 1) << roof;
  workload::Peaks peaks = meter.peaks();
  for (const StreamKind kind : kStreamKinds) {
    const RoofReading& reading = best[std::string(Name(kind))].front();
    EXPECT_EQ(Rate(peaks, kind), reading.rate) << reading.roof;
    EXPECT_EQ(meter.BestStream(kind).name, reading.variant) << reading.roof;
  }
  EXPECT_GT(meter.memory_speed().slow, 0);
  EXPECT_LE(meter.memory_speed().slow, meter.peaks().read);
  EXPECT_GE(meter.memory_speed().fast, meter.peaks().read) << "a quarter of the rounds reached the roof";
  EXPECT_EQ(Flops(meter, Dtype::kFp32), best["fp32"].front().rate);
  EXPECT_EQ(Flops(meter, Dtype::kTf32), 0);
  EXPECT_EQ(Flops(meter, Dtype::kBf16), 0);

  const std::size_t readings = meter.readings().size();
  meter.Calibrate(StreamsAnd({Dtype::kFp32}), kShort);
  EXPECT_EQ(meter.readings().size(), readings);
}

// The meter has no loop of its own for fp8, so the added probes are the only ones. First use calibrates them.
TEST(CpuRoofMeter, AddedProbesReachARoofThatHasNoLoop) {
  CpuRoofMeter meter(Facts(), 2);
  EXPECT_EQ(meter.MeasureCompute(Dtype::kFp8, kShort), 0);
  std::vector<double> seconds;
  meter.AddComputeProbe(Dtype::kFp8, "slow", [](double) { return 100.0; });
  meter.AddComputeProbe(Dtype::kFp8, "fast", [&](double wanted) {
    seconds.push_back(wanted);
    return 200.0;
  });
  EXPECT_EQ(meter.MeasureCompute(Dtype::kFp8, 0.5), 200);
  EXPECT_EQ(Flops(meter, Dtype::kFp8), 200);
  ASSERT_GT(seconds.size(), 1);
  EXPECT_EQ(seconds.back(), 0.5);
  seconds.pop_back();
  EXPECT_THAT(seconds, testing::Each(testing::DoubleEq(seconds.front())));
  EXPECT_EQ(meter.MeasureCompute(Dtype::kTf32, kShort), 0);
  EXPECT_GT(meter.MeasureCompute(Dtype::kFp32, kShort), 0);
}

TEST(CpuRoofMeter, MeasuresOnlyTheNeededRoofs) {
  CpuRoofMeter meter(Facts(), 1);
  meter.AddComputeProbe(Dtype::kFp8, "gemm", [](double) { return 300.0; });
  workload::Cost cost = {.operations = {{.bytes_read = 100, .bytes_written = 1}}};
  cost.operations.front().flops[workload::Index(Dtype::kFp8)] = 1;
  meter.Calibrate(NeedsOf(cost), kShort);
  std::set<std::string> roofs;
  for (const RoofReading& reading : meter.readings()) roofs.insert(reading.roof);
  EXPECT_THAT(roofs, testing::ElementsAre("copy", "fp8", "read"));
  EXPECT_EQ(meter.peaks().write, 0);
}

TEST(CpuRoofMeter, RestoredRoofsAreNotMeasuredAgain) {
  CpuRoofMeter first(Facts(), 1);
  first.AddComputeProbe(Dtype::kFp8, "slow", [](double) { return 100.0; });
  first.AddComputeProbe(Dtype::kFp8, "fast", [](double) { return 200.0; });
  first.Calibrate(StreamsAnd({Dtype::kFp8}), kShort);

  CpuRoofMeter second(Facts(), 1);
  int calls = 0;
  second.AddComputeProbe(Dtype::kFp8, "slow", [](double) { return 1000.0; });
  second.AddComputeProbe(Dtype::kFp8, "fast", [&](double) {
    ++calls;
    return 190.0;
  });
  std::vector<RoofReading> readings = first.readings();
  for (RoofReading& reading : readings) {
    if (reading.roof != "fp8") reading.range = {.slow = 1, .fast = 1e18};  // whatever the memory does meanwhile
  }
  second.Restore(readings);
  EXPECT_EQ(calls, 0);
  second.Calibrate(StreamsAnd({Dtype::kFp8}), kShort);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(Flops(second, Dtype::kFp8), 200);
  EXPECT_EQ(second.peaks().read, first.peaks().read);
  EXPECT_EQ(second.memory_speed().slow, 1);
  for (const StreamKind kind : kStreamKinds) EXPECT_EQ(second.BestStream(kind).name, first.BestStream(kind).name);
  EXPECT_EQ(second.MeasureCompute(Dtype::kFp8, kShort), 190) << "by the variant that was best";
  EXPECT_EQ(second.readings().size(), first.readings().size());
}

// Arithmetic does not change its speed as shared memory does, and is not probed.
TEST(CpuRoofMeter, ARestoredStreamThatHasChangedIsMeasuredAgain) {
  CpuRoofMeter first(Facts(), 1);
  first.AddComputeProbe(Dtype::kFp8, "gemm", [](double) { return 200.0; });
  first.Calibrate(StreamsAnd({Dtype::kFp8}), kShort);
  // Ranges that the memory is above, in and below, whatever other programs leave of it.
  for (const auto& [factor, range] :
       {std::pair{0.01, RateRange{.slow = 1, .fast = 2}}, {1, {.slow = 1, .fast = 1e18}}, {100, {1e17, 1e18}}}) {
    std::vector<RoofReading> readings = first.readings();
    for (RoofReading& reading : readings) {
      reading.rate *= factor;
      reading.range = range;
    }
    CpuRoofMeter meter(Facts(), 1);
    meter.AddComputeProbe(Dtype::kFp8, "gemm", [](double) { return 1.0; });
    meter.Restore(readings);
    RoofNeeds needs;
    needs.streams.set(Index(StreamKind::kRead));
    needs.dtypes.set(Index(Dtype::kFp8));
    meter.Calibrate(needs, kShort);
    const double kept = factor * first.peaks().read;
    EXPECT_EQ(meter.peaks().read == kept, factor == 1);
    EXPECT_EQ(meter.peaks().copy, factor * first.peaks().copy) << "not needed";
    EXPECT_EQ(Flops(meter, Dtype::kFp8), factor * 200);
    EXPECT_EQ(meter.readings().size(), readings.size()) << "none is listed twice";
  }
}

TEST(CpuRoofMeter, ARoofWhoseBestVariantIsMissingIsMeasured) {
  CpuRoofMeter meter(Facts(), 1);
  meter.AddComputeProbe(Dtype::kFp8, "slow", [](double) { return 100.0; });
  meter.Restore({{.roof = "fp8", .variant = "fast", .rate = 200, .best = true},
                 {.roof = "fp8", .variant = "slow", .rate = 90},
                 {.roof = "nonsense", .variant = "fast", .rate = 1, .best = true}});
  EXPECT_EQ(Flops(meter, Dtype::kFp8), 0);
  EXPECT_THAT(meter.readings(), testing::IsEmpty());
  EXPECT_EQ(meter.MeasureCompute(Dtype::kFp8, kShort), 100);
  ASSERT_EQ(meter.readings().size(), 1) << "without the one of the earlier process";
  EXPECT_EQ(meter.readings()[0].rate, 100);
}

TEST(CpuRoofMeter, ProbesCompeteWithTheLoops) {
  for (const double rate : {1.0, 1e18}) {
    CpuRoofMeter meter(Facts(), 2);
    meter.AddComputeProbe(Dtype::kFp32, "gemm", [rate](double) { return rate; });
    meter.Calibrate(StreamsAnd({Dtype::kFp32}), kShort);
    EXPECT_EQ(Flops(meter, Dtype::kFp32) == rate, rate > 1);
    EXPECT_EQ(meter.MeasureCompute(Dtype::kFp32, kShort) == rate, rate > 1);
  }
}

TEST(CpuRoofMeter, MeasuresMixesWithOrWithoutCalibration) {
  CpuRoofMeter meter(Facts(), 2);
  EXPECT_EQ(meter.MeasureMemory({}, kShort), 0);
  EXPECT_EQ(meter.MeasureCache({}, kMebi, kShort), 0);
  EXPECT_EQ(meter.MeasureCache({.read = 1}, 0, kShort), 0);
  EXPECT_GT(meter.MeasureMemory({.read = 1}, kShort), 0);
  EXPECT_GT(meter.peaks().read, 0);
  EXPECT_GT(meter.MeasureMemory({.read = 5, .copy = 3, .update = 2, .write = 1}, kShort), 0);
  EXPECT_GT(meter.MeasureCache({.read = 1}, 32 * kKibi, kShort), 0);
  EXPECT_GT(meter.MeasureCache({.read = 5, .copy = 3, .update = 2, .write = 1}, kMebi, kShort), 0);
}

TEST(CpuRoofMeter, ExceptionOfAProbePassesThrough) {
  CpuRoofMeter meter(Facts(), 1);
  meter.AddComputeProbe(Dtype::kFp8, "gemm", [](double) -> double { throw std::runtime_error("no kernel"); });
  EXPECT_THROW(meter.Calibrate(StreamsAnd({Dtype::kFp8}), kShort), std::runtime_error);
}

}  // namespace
}  // namespace roofbench::hardware
