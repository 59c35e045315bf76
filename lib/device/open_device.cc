// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/device/cpu_device.h"
#include "lib/device/gpu_device.h"
#include "lib/device/gpu_module.h"

namespace roofbench {
namespace {

// LibTorch's CUDA libraries take seconds to open, so `auto` looks for a driver first.
absl::Status FindDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return absl::UnavailableError("there is no NVIDIA driver here (libcuda.so.1)");
  dlclose(driver);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index) {
  if (absl::Status status = FindDriver(); !status.ok()) return status;
  const absl::StatusOr<const GpuModule*> module = LoadGpuModule();
  if (!module.ok()) return module.status();
  std::string why;
  const int count = (*module)->count(&why);
  if (count < 0) return absl::UnavailableError(absl::StrCat("the driver shows no GPU: ", why));
  if (index >= count) {
    return absl::NotFoundError(count == 0 ? std::string("the driver shows no GPU")
                                          : absl::StrCat("there is no GPU ", index, "; there are ", count,
                                                         ", from cuda:0 to cuda:", count - 1));
  }
  GpuParts parts;
  parts.gpu.reset((*module)->open(index, &why));
  if (parts.gpu == nullptr) return absl::UnavailableError(absl::StrCat("GPU ", index, " cannot be used: ", why));
  parts.nvml = hardware::Nvml::Open(parts.gpu->facts().pci_bus_id, &parts.nvml_missing);
  parts.torch_device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  return std::make_unique<GpuDevice>(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& spec, int threads) {
  if (spec == "cpu") return std::make_unique<CpuDevice>(threads);
  if (spec == "auto") {
    if (absl::StatusOr<std::unique_ptr<Device>> gpu = OpenGpu(0); gpu.ok()) return gpu;
    return std::make_unique<CpuDevice>(threads);
  }
  int index = 0;
  const bool is_gpu = spec == "cuda" ||
                      (absl::StartsWith(spec, "cuda:") && absl::SimpleAtoi(absl::StripPrefix(spec, "cuda:"), &index) &&
                       index >= 0 && index <= std::numeric_limits<c10::DeviceIndex>::max());
  if (!is_gpu) {
    return absl::InvalidArgumentError(absl::StrCat("--device=", spec, ": expected auto, cpu, cuda or cuda:N"));
  }
  absl::StatusOr<std::unique_ptr<Device>> gpu = OpenGpu(index);
  if (gpu.ok()) return gpu;
  return absl::InvalidArgumentError(
      absl::StrCat("--device=", spec, ": ", std::string(gpu.status().message()), " (--device=cpu works anywhere)"));
}

}  // namespace roofbench
