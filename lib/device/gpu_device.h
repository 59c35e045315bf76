// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: events for its clock, its L2 as the cache, and the streams and matrix products as its roofs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/gpu.h"
#include "lib/device/metered_device.h"
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

class GpuDevice final : public MeteredDevice {
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
  void RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) override;
  std::function<void()> ExtraWork(double seconds) override;
  void AfterCase() override;
  void WaitUntilCool() override;
  absl::Status Health() override;
  absl::Status DisplaceCache() override;
  bool SharesHostMemory() const override { return false; }
  bool EnqueuesAhead() const override { return true; }
  bool ConditionsAreMomentary() const override { return true; }
  Gpu* gpu() const override { return gpu_.get(); }

 private:
  // Why roofs are not known, of streams and of products; "none" if all ran so far.
  std::string ProbeFaults() const;
  hardware::RoofMeter& meter() const override { return *meter_; }
  std::vector<std::pair<std::string, hardware::ComputeProbe>> GemmProbes(workload::Dtype dtype) const override;

  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<hardware::Nvml> nvml_;
  std::string nvml_missing_;
  at::Device torch_device_;
  int threads_;
  int processors_;
  std::function<double()> host_seconds_;
  const hardware::Datasheet* datasheet_;
  timing::EventClock clock_;
  // Of products: the probes, which have it, too, are the meter's.
  const std::shared_ptr<std::vector<std::string>> probe_faults_ = std::make_shared<std::vector<std::string>>();
  const std::unique_ptr<hardware::GpuRoofMeter> meter_;
  const std::optional<double> idle_watts_;  // before any work
};

// Opens the CUDA part of the program, a shared library: from ../lib, the program's folder, or the file that
// ROOFBENCH_CUDA_MODULE names. The error names the missing part and the way to get it. It is opened once and stays
// open.
absl::StatusOr<const GpuModule*> LoadGpuModule();
// As LoadGpuModule, from a given file: for tests.
absl::StatusOr<const GpuModule*> LoadGpuModuleFrom(const std::string& path);

}  // namespace roofbench
