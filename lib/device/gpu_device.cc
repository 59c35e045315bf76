// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gpu_device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/text.h"
#include "lib/device/gemm_probes.h"
#include "lib/device/host_waits.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/machine_facts.h"

namespace roofbench {
namespace {

using workload::Dtype;

constexpr double kCalibrationSeconds = 0.036;  // for each variant of a roof
constexpr int kCoolingPolls = 20;
constexpr std::chrono::milliseconds kCoolingPause(250);

// The first compute capability whose tensor cores (or vector units) multiply in a precision, and the generation's name.
struct Precision {
  Dtype dtype;
  int major;
  int minor;
  const char* since;
};
constexpr Precision kPrecisions[] = {
    {Dtype::kFp32, 0, 0, "every GPU"}, {Dtype::kTf32, 8, 0, "Ampere"}, {Dtype::kBf16, 8, 0, "Ampere"},
    {Dtype::kFp16, 7, 0, "Volta"},     {Dtype::kInt8, 7, 5, "Turing"}, {Dtype::kFp8, 8, 9, "Ada and Hopper"},
    {Dtype::kFp64, 0, 0, "every GPU"},
};

}  // namespace

GpuDevice::GpuDevice(GpuParts parts)
    : MeteredDevice(kCalibrationSeconds),
      gpu_(std::move(parts.gpu)),
      nvml_(std::move(parts.nvml)),
      nvml_missing_(std::move(parts.nvml_missing)),
      torch_device_(parts.torch_device),
      threads_(at::get_num_threads()),
      processors_(hardware::ReadCpuFacts().logical_cpus),
      host_seconds_(parts.host_seconds),
      datasheet_(hardware::RecognizeDevice(gpu_->facts().name)),
      clock_(gpu_->NewEventQueue(), parts.host_seconds, HostWaits(parts.host_seconds)),
      meter_(std::make_unique<hardware::GpuRoofMeter>(gpu_->streams(), gpu_->facts().l2_bytes,
                                                      gpu_->facts().memory_bytes)),
      idle_watts_(nvml_ == nullptr ? std::nullopt : nvml_->Read().watts) {}

std::unique_ptr<timing::Clock> GpuDevice::NewClock() const {
  return std::make_unique<timing::EventClock>(gpu_->NewEventQueue(), host_seconds_);
}

absl::Status GpuDevice::Supports(Dtype dtype) const {
  const GpuFacts& facts = gpu_->facts();
  for (const Precision& row : kPrecisions) {
    if (row.dtype != dtype) continue;
    if (std::pair(facts.compute_major, facts.compute_minor) >= std::pair(row.major, row.minor)) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat("this GPU (compute capability ", facts.compute_major, ".",
                                                 facts.compute_minor, ") has no ", std::string(Name(dtype)),
                                                 " arithmetic, which came with ", row.since));
  }
  return absl::UnimplementedError(absl::StrCat(std::string(Name(dtype)), " is unknown on a GPU"));
}

std::vector<std::pair<std::string, std::string>> GpuDevice::Context() const {
  const GpuFacts& gpu = gpu_->facts();
  std::vector<std::pair<std::string, std::string>> context = {
      {"device_arch", absl::StrCat("sm_", gpu.compute_major, gpu.compute_minor)},
      {"gpu_index", absl::StrCat(gpu.index)},
      {"gpu_multiprocessors", absl::StrCat(gpu.multiprocessors)},
      {"gpu_l2_bytes", absl::StrCat(static_cast<int64_t>(gpu.l2_bytes))},
      {"memory_bytes", absl::StrCat(static_cast<int64_t>(gpu.memory_bytes))},
      {"gpu_pci_bus_id", gpu.pci_bus_id},
      {"cuda_driver", gpu.cuda_driver},
      {"cuda_runtime", gpu.cuda_runtime},
      {"gpu_datasheet", datasheet_ == nullptr ? "unknown" : std::string(datasheet_->name)},
      {"gpu_probe_fault", ProbeFaults()},
  };
  if (nvml_ == nullptr) {
    context.emplace_back("nvml", absl::StrCat("not available: ", nvml_missing_));
    return context;
  }
  const hardware::NvmlFacts facts = nvml_->Facts();
  context.emplace_back("gpu_driver", facts.driver_version);
  if (const auto watts = facts.power_limit_watts) {
    context.emplace_back("gpu_power_limit_watts", absl::StrFormat("%.6g", *watts));
  }
  if (idle_watts_) context.emplace_back("gpu_idle_watts", absl::StrFormat("%.6g", *idle_watts_));
  if (const auto hertz = facts.max_sm_hertz) {
    context.emplace_back("gpu_max_clock_mhz", absl::StrFormat("%.6g", *hertz / 1e6));
  }
  for (const hardware::Disturbance& one : hardware::GpuDisturbances(facts, nvml_->Read())) {
    context.emplace_back(one.fact, one.value);
  }
  return context;
}

std::string GpuDevice::ProbeFaults() const {
  std::vector<std::string> faults = *probe_faults_;
  if (!meter_->fault().empty()) faults.insert(faults.begin(), meter_->fault());
  return faults.empty() ? "none" : absl::StrJoin(faults, "; ");
}

Conditions GpuDevice::ReadConditions() const {
  if (nvml_ == nullptr) return {};
  const hardware::NvmlReading reading = nvml_->Read();
  return {.thermal_seconds = reading.thermal_seconds,
          .power_cap_seconds = reading.power_cap_seconds,
          .thermal = IsThermal(reading),
          .power_capped = IsPowerCapped(reading),
          .clock_hertz = reading.sm_hertz,
          .watts = reading.watts};
}

std::vector<std::pair<std::string, hardware::ComputeProbe>> GpuDevice::GemmProbes(Dtype dtype) const {
  return GpuGemmProbes(dtype, torch_device_, NewClock(), [faults = probe_faults_](std::string fault) {
    if (std::ranges::find(*faults, fault) == faults->end()) faults->push_back(std::move(fault));
  });
}

void GpuDevice::RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) {
  // A read adds to the word at its target.
  if (way.kind == hardware::StreamKind::kRead) gpu_->Zero(to, sizeof(uint64_t));
  const std::span<const std::string_view> variants = gpu_->streams().variants();
  const auto named = std::ranges::find(variants, way.variant);
  const int variant =
      named == variants.end() ? meter_->BestVariant(way.kind) : static_cast<int>(named - variants.begin());
  gpu_->streams().Enqueue({.kind = way.kind, .variant = variant, .to = to, .from = from, .bytes = bytes});
}

absl::Status GpuDevice::DisplaceCache() {
  if (meter_->DisplaceCache()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("operands this small are cold only after the cache was displaced: ", meter_->fault()));
}

std::function<void()> GpuDevice::ExtraWork(double seconds) {
  return [gpu = gpu_.get(), seconds] { gpu->Spin(seconds); };
}

void GpuDevice::AfterCase() {
  // An error that the device has not reported yet belongs to the case that ends here.
  gpu_->Synchronize();
  gpu_->EmptyCache();
}

absl::Status GpuDevice::Health() {
  // CUDA reports most errors once. An error that it reports again (an illegal access, a failed assertion) has broken
  // the process's context, and every later call will fail.
  absl::Status health;
  for (int asked = 0; asked < 2; ++asked) {
    try {
      gpu_->Synchronize();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      health = absl::UnavailableError(FirstLine(error.what()));
    }
  }
  return health;
}

void GpuDevice::WaitUntilCool() {
  for (int poll = 0; poll < kCoolingPolls; ++poll) {
    std::this_thread::sleep_for(kCoolingPause);
    if (!ReadConditions().thermal) return;
  }
}

}  // namespace roofbench
