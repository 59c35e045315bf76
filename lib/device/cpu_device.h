// SPDX-License-Identifier: Apache-2.0
// The processor as a device: LibTorch's thread pool, the steady clock, and CpuRoofMeter's roofs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/metered_device.h"
#include "lib/hardware/cache_eviction.h"
#include "lib/hardware/conditions/handover.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/process_memory.h"
#include "lib/hardware/roofs/cpu_roof_meter.h"
#include "lib/timing/clock.h"

namespace roofbench {

class CpuDevice : public MeteredDevice {
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
  std::vector<std::pair<std::string, std::string>> Context() const override { return facts_.Context(); }
  Conditions ReadConditions() const override { return hardware::ReadProcessorConditions(); }
  std::optional<double> HandoverSeconds() const override { return hardware::HandoverSeconds(threads_); }
  void RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) override;
  std::function<void()> ExtraWork(double seconds) override;
  hardware::CacheEvictor* evictor() override { return &evictor_; }
  // Gives freed memory that glibc holds back to the system: over hours of cases it would add up to gigabytes, which the
  // memory prediction for the next case counts as used.
  void AfterCase() override { hardware::ReleaseFreedMemory(); }

 private:
  hardware::RoofMeter& meter() const override { return *meter_; }
  std::vector<std::pair<std::string, hardware::ComputeProbe>> GemmProbes(workload::Dtype dtype) const override;

  int threads_;
  hardware::CpuFacts facts_;
  timing::CpuClock clock_;
  const std::unique_ptr<hardware::CpuRoofMeter> meter_;
  hardware::CacheEvictor evictor_;
};

}  // namespace roofbench
