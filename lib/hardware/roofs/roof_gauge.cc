// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_gauge.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace roofbench::hardware {

using workload::Bound;
using workload::Dtype;

namespace {

constexpr double kCacheSeconds = 0.004;  // seconds of one reading

}  // namespace

workload::Peaks RoofGauges::CachePeaks(double working_set, const workload::Cost& cost, RoofMeter& meter) {
  workload::Peaks& known = cache_peaks_[working_set];
  const RoofNeeds needs = NeedsOf(cost);
  for (const StreamKind kind : kStreamKinds) {
    double& rate = Rate(known, kind);
    if (rate > 0 || !needs.streams[Index(kind)]) continue;
    const TrafficMix mix = {.read = kind == StreamKind::kRead ? 1.0 : 0,
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
  RoofGauge gauge{.peaks = meter.peaks(), .name = "memory"};
  double working_set = 0;  // 0: memory
  if (cache == CacheState::kWarm) {
    working_set = meter.CacheWorkingSet(cost.resident_bytes);
    // A working set beyond the last level keeps a part of its operands there from step to step. The level's rate is an
    // upper bound up to eight times its size; beyond that, almost nothing survives.
    const double last_level = meter.LastLevelCacheBytes();
    if (working_set == 0 && cost.resident_bytes < 8 * last_level) working_set = meter.CacheWorkingSet(last_level / 4);
    if (working_set > 0) {
      gauge.peaks = CachePeaks(working_set, cost, meter);
      gauge.name = "caches (" + std::to_string(static_cast<int64_t>(working_set / 1024)) + " KiB)";
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
  gauge.probe = [&meter, mix = MixOf(cost), working_set](double probe_seconds) {
    return working_set > 0 ? meter.MeasureCache(mix, working_set, probe_seconds)
                           : meter.MeasureMemory(mix, probe_seconds);
  };
  return gauge;
}

double RoofGauge::SecondsAt(const workload::Cost& cost, double rate) const {
  if (calibrated_rate <= 0) return 0;
  return workload::RoofSeconds(cost, peaks.Scaled(bound, rate / calibrated_rate)).value_or(0);
}

}  // namespace roofbench::hardware
