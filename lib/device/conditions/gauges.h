// SPDX-License-Identifier: Apache-2.0
// Chooses the measured roof that a case is compared with, on any device.
#pragma once

#include <map>

#include "lib/device/device.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench {

class Gauges {
 public:
  // `roofs` must outlive the gauges that are made.
  explicit Gauges(hardware::RoofMeter& roofs) : roofs_(roofs) {}

  RoofGauge For(const workload::Cost& cost, CacheState cache);

 private:
  // Bandwidths of the streams of `cost` inside the cache level that stands for `working_set` bytes; each is measured
  // when first requested.
  workload::Peaks CachePeaks(double working_set, const workload::Cost& cost);

  hardware::RoofMeter& roofs_;
  std::map<double, workload::Peaks> cache_peaks_;
};

}  // namespace roofbench
