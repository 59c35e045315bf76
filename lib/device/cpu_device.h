// SPDX-License-Identifier: Apache-2.0
// The processor as a device: LibTorch's thread pool, the steady clock, and CpuRoofMeter's roofs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/conditions/gauges.h"
#include "lib/device/device.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/roofs/cpu_roof_meter.h"
#include "lib/timing/clock.h"

namespace roofbench {

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads);

  std::string kind() const override { return "cpu"; }
  std::string name() const override { return facts_.model; }
  at::Device torch_device() const override { return at::kCPU; }
  int threads() const override { return threads_; }
  int processors() const override { return facts_.logical_cpus; }
  const hardware::Datasheet* datasheet() const override { return nullptr; }
  timing::Clock& clock() override { return clock_; }
  std::unique_ptr<timing::Clock> NewClock() const override { return std::make_unique<timing::CpuClock>(); }
  double LastLevelCacheBytes() const override { return facts_.LastLevelCacheBytes(); }
  double FreeMemoryBytes() const override { return hardware::AvailableMemoryBytes(); }
  absl::Status Supports(workload::Dtype dtype) const override;
  std::vector<std::pair<std::string, std::string>> Context() const override;
  Conditions ReadConditions() const override;
  void Calibrate(const hardware::RoofNeeds& needs) override;
  void RestoreRoofs(const std::vector<hardware::RoofReading>& readings) override;
  std::vector<hardware::RoofReading> RoofReadings() const override { return meter_.readings(); }
  const workload::Peaks& MeasuredPeaks() const override { return meter_.peaks(); }
  hardware::RateRange MemorySpeed() const override { return meter_.memory_speed(); }
  RoofGauge Gauge(const workload::Cost& cost, CacheState cache) override { return gauges_.For(cost, cache); }
  void RunStream(hardware::StreamKind kind, std::byte* to, const std::byte* from, std::size_t bytes) override;
  std::function<void()> ExtraWork(double seconds) override;
  hardware::CacheEvictor* evictor() override { return &evictor_; }
  // Gives freed memory that glibc holds back to the system: over hours of cases it would add up to gigabytes, which the
  // memory prediction for the next case counts as used.
  void AfterCase() override;

 private:
  // Adds LibTorch's products in the needed precisions as probes; returns the needs that this processor supports.
  hardware::RoofNeeds AddGemmProbes(hardware::RoofNeeds needs);

  int threads_;
  hardware::CpuFacts facts_;
  timing::CpuClock clock_;
  hardware::CpuRoofMeter meter_;
  Gauges gauges_{meter_};
  hardware::CacheEvictor evictor_;
};

}  // namespace roofbench
