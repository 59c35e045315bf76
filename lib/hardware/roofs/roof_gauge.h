// SPDX-License-Identifier: Apache-2.0
// Chooses the measured roof that a case is compared with.
#pragma once

#include <map>
#include <string>

#include "lib/hardware/roofs/roof_meter.h"
#include "lib/timing/sampler.h"
#include "lib/workload/cost.h"
#include "lib/workload/roofline.h"

namespace roofbench::hardware {

enum class CacheState { kCold, kWarm };

// The measured roof that one case is compared with, and a probe that measures its binding part repeatedly.
struct RoofGauge {
  workload::Peaks peaks;  // calibrated for this case's working set
  workload::Bound bound = workload::Bound::kMemory;
  timing::RoofProbe probe = {};  // rate of the binding roof
  double calibrated_rate = 0;    // what `probe` is expected to return under `peaks`
  std::string name;              // "memory", "L2", "bf16 arithmetic", …: for messages

  // Lower bound of the seconds for `cost` while the binding roof runs at `rate`; 0 if unknown.
  double SecondsAt(const workload::Cost& cost, double rate) const;
};

// Makes gauges, and keeps the bandwidths of caches that they needed.
class RoofGauges {
 public:
  // A warm case is compared with streams that cycle through as many bytes as it holds: whatever caches keep of the one,
  // they keep of the other, and no level has to be known. The meter must outlive the gauge.
  RoofGauge For(const workload::Cost& cost, CacheState cache, RoofMeter& meter);

 private:
  RoofGauge Found(const workload::Cost& cost, CacheState cache, RoofMeter& meter);
  // Bandwidths of the streams of `cost` that cycle through `working_set` bytes; each is measured when first requested.
  workload::Peaks CachePeaks(double working_set, const workload::Cost& cost, RoofMeter& meter);

  std::map<double, workload::Peaks> cache_peaks_;
};

}  // namespace roofbench::hardware
