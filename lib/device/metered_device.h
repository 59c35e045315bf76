// SPDX-License-Identifier: Apache-2.0
// A device whose roofs a RoofMeter measures: chooses the measured roof that a case is compared with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/device/device.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench {

class MeteredDevice : public Device {
 public:
  void Calibrate(const hardware::RoofNeeds& needs) override;
  void RestoreRoofs(const std::vector<hardware::RoofReading>& readings) override;
  std::vector<hardware::RoofReading> RoofReadings() const override { return meter().readings(); }
  const workload::Peaks& MeasuredPeaks() const override { return meter().peaks(); }
  hardware::RateRange MemorySpeed() const override { return meter().memory_speed(); }
  RoofGauge Gauge(const workload::Cost& cost, CacheState cache) override { return gauges_.For(cost, cache, meter()); }

 protected:
  // `calibration_seconds`: for each variant of a roof.
  explicit MeteredDevice(double calibration_seconds) : calibration_seconds_(calibration_seconds) {}

  virtual hardware::RoofMeter& meter() const = 0;
  // LibTorch's ways to multiply matrices in a supported precision: name and probe.
  virtual std::vector<std::pair<std::string, hardware::ComputeProbe>> GemmProbes(workload::Dtype dtype) const = 0;

 private:
  // Adds the matrix products of the needed precisions as probes; returns the needs that the device supports.
  hardware::RoofNeeds AddGemmProbes(hardware::RoofNeeds needs);

  const double calibration_seconds_;
  hardware::RoofGauges gauges_;
};

}  // namespace roofbench
