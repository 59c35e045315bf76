// SPDX-License-Identifier: Apache-2.0
// A device whose clock a test advances and whose roofs are given.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/device.h"
#include "tests/timing/fake_clock.h"

namespace roofbench {

class FakeDevice : public Device {
 public:
  std::string kind() const override { return "cpu"; }
  std::string name() const override { return "fake"; }
  at::Device torch_device() const override { return at::kCPU; }
  int threads() const override { return 2; }
  int processors() const override { return 2; }
  const hardware::Datasheet* datasheet() const override { return sheet; }
  timing::Clock& clock() override { return fake_clock; }
  std::unique_ptr<timing::Clock> NewClock() const override { return std::make_unique<timing::FakeClock>(); }
  double LastLevelCacheBytes() const override { return last_level_bytes; }
  double FreeMemoryBytes() const override { return free_bytes; }
  absl::Status Supports(workload::Dtype dtype) const override {
    return dtype == workload::Dtype::kFp16 ? absl::UnimplementedError("no fp16 arithmetic") : absl::OkStatus();
  }
  std::vector<std::pair<std::string, std::string>> Context() const override { return {{"fact", "value"}}; }
  Conditions ReadConditions() const override { return conditions; }
  void RestoreRoofs(const std::vector<hardware::RoofReading>& some) override { readings = some; }
  std::vector<hardware::RoofReading> RoofReadings() const override { return readings; }
  absl::Status DisplaceCache() override { return absl::OkStatus(); }
  hardware::CacheEvictor* evictor() override { return evicts ? &cache_evictor : nullptr; }
  void Calibrate(const hardware::RoofNeeds& needs) override { calibrated |= needs; }
  const workload::Peaks& MeasuredPeaks() const override { return peaks; }
  hardware::RateRange MemorySpeed() const override { return memory_speed; }
  RoofGauge Gauge(const workload::Cost& cost, CacheState /*cache*/) override {
    RoofGauge gauge{.peaks = peaks, .bound = workload::Bound::kMemory, .name = "memory"};
    gauge.calibrated_rate = peaks.read;
    if (cost.Bytes() > 0) {
      gauge.probe = [this](double seconds) {
        fake_clock.Advance(seconds);
        return roof_rate;
      };
    }
    return gauge;
  }
  void RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (way.kind == hardware::StreamKind::kCopy) std::memcpy(to, from, bytes);
  }
  std::function<void()> ExtraWork(double seconds) override {
    return [this, seconds] { fake_clock.Advance(seconds); };
  }
  void AfterCase() override { ++cases_ended; }
  void WaitUntilCool() override { ++pauses; }
  absl::Status Health() override { return health; }

  absl::Status health;
  std::vector<hardware::RoofReading> readings;
  bool evicts = false;  // else cold cases rotate over copies
  hardware::CacheEvictor cache_evictor{1 << 20, 1};
  int cases_ended = 0;
  int pauses = 0;
  timing::FakeClock fake_clock;
  const hardware::Datasheet* sheet = nullptr;
  double last_level_bytes = 1 << 20;
  double free_bytes = 8e9;
  Conditions conditions;
  workload::Peaks peaks = DefaultPeaks();
  double roof_rate = 1e9;
  hardware::RateRange memory_speed;
  hardware::RoofNeeds calibrated;

 private:
  // Not in the constructor: GCC 12 takes the list for dangling where it inlines that.
  static workload::Peaks DefaultPeaks() { return workload::UniformPeaks({1e12, 0, 2e12, 0, 4e12, 0}, 1e9); }
};

// A machine whose GPU is that of the fake NVML library.
class FakeGpuMachine : public FakeDevice {
 public:
  bool SharesHostMemory() const override { return false; }
  std::vector<std::pair<std::string, std::string>> Context() const override {
    return {{"device_arch", "sm_90"}, {"gpu_pci_bus_id", bus_id}};
  }

  std::string bus_id = "0000:65:00.0";
};

}  // namespace roofbench
