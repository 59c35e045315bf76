// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_gauge.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/roofs/resting_threads.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {

using workload::Bound;
using workload::Dtype;

namespace {

constexpr double kCacheSeconds = 0.004;  // seconds of one reading
// The gain of caches is the median of pairs of readings, of which that of the caches is long enough to settle.
constexpr int kGainPairs = 3;
constexpr double kSettledSeconds = 0.012;
// With this multiple of the last level, almost nothing survives a lap.
constexpr double kBeyondCaches = 8;
// A working set that is served faster than memory by less than this is probed as memory, which costs no laps.
constexpr double kServedByCaches = 1.25;

// What serves the operands of a warm case.
struct Warm {
  double working_set = 0;  // bytes that its probes cycle through; 0: they are probes of memory
  double gain = 1;         // then: how much faster than memory the operands are served
};

// How much faster streams through this working set are than those through memory. In turns, because the speed of memory
// changes within minutes. 0 where nothing moves or nothing can be measured.
double GainOfCaches(const workload::Traffic& mix, double working_set, RoofMeter& meter) {
  std::vector<double> gains;
  for (int i = 0; i < kGainPairs; ++i) {
    const double cached = meter.MeasureCache(mix, working_set, kSettledSeconds);
    const double memory = meter.MeasureMemory(mix, kCacheSeconds);
    gains.push_back(memory > 0 ? cached / memory : 0);
  }
  return timing::Median(gains);
}

Warm WhatServes(const workload::Cost& cost, RoofMeter& meter) {
  const double last_level = meter.LastLevelCacheBytes();
  if (cost.resident_bytes <= 0) return {};
  if (last_level > 0 && cost.resident_bytes >= kBeyondCaches * last_level) return {};
  AwaitRest({[&meter] { return meter.OthersRun(); }});
  const workload::Traffic mix = workload::TrafficOf(cost);
  // Of a larger set, this is an upper bound: buffers for all of it could take the memory that the case needs.
  const double held = std::min(cost.resident_bytes, meter.MostWorkingSet());
  const double gain = GainOfCaches(mix, held, meter);
  if (gain >= kServedByCaches) return {.working_set = held};
  return {.gain = std::max(gain, 1.0)};
}

}  // namespace

workload::Peaks RoofGauges::CachePeaks(double working_set, const workload::Cost& cost, RoofMeter& meter) {
  workload::Peaks& known = cache_peaks_[working_set];
  const RoofNeeds needs = NeedsOf(cost);
  for (const StreamKind kind : kStreamKinds) {
    double& rate = Rate(known, kind);
    if (rate > 0 || !needs.streams[Index(kind)]) continue;
    const workload::Traffic mix = {.read = kind == StreamKind::kRead ? 1.0 : 0,
                                   .copy = kind == StreamKind::kCopy ? 1.0 : 0,
                                   .update = kind == StreamKind::kUpdate ? 1.0 : 0,
                                   .write = kind == StreamKind::kWrite ? 1.0 : 0};
    for (int i = 0; i < 3; ++i) rate = std::max(rate, meter.MeasureCache(mix, working_set, kCacheSeconds));
  }
  workload::Peaks peaks = known;
  peaks.flops_per_second = meter.peaks().flops_per_second;
  return peaks;
}

RoofGauge RoofGauges::For(const workload::Cost& cost, CacheState cache, RoofMeter& meter) {
  RoofGauge gauge = Found(cost, cache, meter);
  if (gauge.probe) gauge.probe = OnceThreadsRest(std::move(gauge.probe), {[&meter] { return meter.OthersRun(); }});
  return gauge;
}

RoofGauge RoofGauges::Found(const workload::Cost& cost, CacheState cache, RoofMeter& meter) {
  RoofGauge gauge{.peaks = meter.peaks(), .name = "memory"};
  Warm warm;
  if (cache == CacheState::kWarm) {
    warm = WhatServes(cost, meter);
    gauge.peaks = meter.peaks().Scaled(Bound::kMemory, warm.gain);
    if (warm.working_set > 0) {
      gauge.peaks = CachePeaks(warm.working_set, cost, meter);
      gauge.name = "caches (" + std::to_string(static_cast<int64_t>(warm.working_set / 1024)) + " KiB)";
    }
  }
  gauge.bound = workload::BindingRoof(cost, gauge.peaks);
  const std::optional<Dtype> dtype = workload::DominantDtype(cost, gauge.peaks);
  if (gauge.bound == Bound::kCompute && dtype) {
    gauge.name = std::string(Name(*dtype)) + " arithmetic";
    gauge.calibrated_rate = gauge.peaks.flops_per_second[workload::Index(*dtype)];
    gauge.probe = [&meter, dtype = *dtype](double seconds) { return meter.MeasureCompute(dtype, seconds); };
    return gauge;
  }
  const std::optional<double> seconds = workload::MemorySeconds(cost, gauge.peaks);
  if (!seconds) return gauge;
  gauge.calibrated_rate = cost.Bytes() / *seconds;
  gauge.probe = [&meter, mix = workload::TrafficOf(cost), warm](double probe_seconds) {
    return warm.working_set > 0 ? meter.MeasureCache(mix, warm.working_set, probe_seconds)
                                : warm.gain * meter.MeasureMemory(mix, probe_seconds);
  };
  return gauge;
}

double RoofGauge::SecondsAt(const workload::Cost& cost, double rate) const {
  if (calibrated_rate <= 0) return 0;
  return workload::RoofSeconds(cost, peaks.Scaled(bound, rate / calibrated_rate)).value_or(0);
}

}  // namespace roofbench::hardware
