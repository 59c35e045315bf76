// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: events for its clock, its L2 as the cache, and the streams and matrix products as its roofs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/conditions/gauges.h"
#include "lib/device/device.h"
#include "lib/device/gpu.h"
#include "lib/hardware/nvml.h"
#include "lib/hardware/roofs/gpu_roof_meter.h"
#include "lib/timing/event_clock.h"

namespace roofbench {

// The parts of a GpuDevice. A test passes fakes, and a CPU to hold the tensors.
struct GpuParts {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<hardware::Nvml> nvml;  // nullptr: unknown
  std::string nvml_missing;              // why `nvml` is nullptr
  at::Device torch_device = at::kCUDA;
  std::function<double()> host_seconds;  // nullptr: the steady clock
};

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(GpuParts parts);

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return gpu_->facts().name; }
  at::Device torch_device() const override { return torch_device_; }
  int threads() const override { return threads_; }
  int processors() const override { return processors_; }
  const hardware::Datasheet* datasheet() const override { return datasheet_; }
  timing::Clock& clock() override { return clock_; }
  std::unique_ptr<timing::Clock> NewClock() const override;
  double LastLevelCacheBytes() const override { return gpu_->facts().l2_bytes; }
  double FreeMemoryBytes() const override { return gpu_->FreeMemoryBytes(); }
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
  void AfterCase() override;
  void WaitUntilCool() override;
  absl::Status Health() override;
  bool SharesHostMemory() const override { return false; }
  bool EnqueuesAhead() const override { return true; }
  bool ConditionsAreMomentary() const override { return true; }
  Gpu* gpu() const override { return gpu_.get(); }

 private:
  // Adds matrix products in the needed precisions as probes; returns the needs that this device supports.
  hardware::RoofNeeds AddGemmProbes(hardware::RoofNeeds needs);

  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<hardware::Nvml> nvml_;
  std::string nvml_missing_;
  at::Device torch_device_;
  int threads_;
  int processors_;
  std::function<double()> host_seconds_;
  const hardware::Datasheet* datasheet_;
  timing::EventClock clock_;
  hardware::GpuRoofMeter meter_;
  Gauges gauges_{meter_};
};

}  // namespace roofbench
