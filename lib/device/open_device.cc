// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/device/cpu_device.h"
#include "lib/device/gpu_device.h"

namespace roofbench {
namespace {

constexpr char kOverride[] = "ROOFBENCH_CUDA_MODULE";

std::vector<std::filesystem::path> Places() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = program.parent_path();
  // Next to bin, next to the program, and next to libexec/roofbench, which holds the installed tests.
  return {folder.parent_path() / "lib" / kGpuModuleFile, folder / kGpuModuleFile,
          folder.parent_path().parent_path() / "lib" / kGpuModuleFile};
}

// LibTorch's CUDA libraries take seconds to open, so `auto` looks for a driver first.
absl::Status FindDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return absl::UnavailableError("there is no NVIDIA driver here (libcuda.so.1)");
  dlclose(driver);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(std::optional<int> number, int local_rank) {
  if (absl::Status status = FindDriver(); !status.ok()) return status;
  const absl::StatusOr<const GpuModule*> module = LoadGpuModule();
  if (!module.ok()) return module.status();
  std::string why;
  const int count = (*module)->count(&why);
  if (count < 0) return absl::UnavailableError(absl::StrCat("the driver shows no GPU: ", why));
  // A launcher may have given each rank its own.
  const int index = number ? *number : count == 1 ? 0 : local_rank;
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

absl::StatusOr<const GpuModule*> LoadGpuModuleFrom(const std::string& path) {
  // RTLD_GLOBAL: LibTorch's CUDA libraries, which the module loads, find one another as if the program had linked them.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    return absl::UnavailableError(
        absl::StrCat("the CUDA part cannot be opened: ", error == nullptr ? path : std::string(error)));
  }
  const auto* module = static_cast<const GpuModule*>(dlsym(handle, kGpuModuleSymbol));
  if (module == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(path, " is not the CUDA part of roofbench: it has no ", kGpuModuleSymbol));
  }
  if (module->version != kGpuModuleVersion) {
    return absl::UnavailableError(absl::StrCat(path, " belongs to another build of roofbench (interface ",
                                               module->version, ", this one needs ", kGpuModuleVersion,
                                               "): build or install both together"));
  }
  return module;
}

absl::StatusOr<const GpuModule*> LoadGpuModule() {
  static const auto* opened = new absl::StatusOr<const GpuModule*>([]() -> absl::StatusOr<const GpuModule*> {
    if (const char* path = std::getenv(kOverride); path != nullptr && *path != '\0') return LoadGpuModuleFrom(path);
    for (const std::filesystem::path& place : Places()) {
      if (std::filesystem::exists(place)) return LoadGpuModuleFrom(place.string());
    }
    return absl::UnavailableError(absl::StrCat(
        "this build has no CUDA part (", kGpuModuleFile,
        " is not next to the program): build with a CUDA toolkit and a CUDA build of LibTorch, -DROOFBENCH_CUDA=ON"));
  }());
  return *opened;
}

absl::Status SeesGpus(int64_t count) {
  const absl::StatusOr<const GpuModule*> module = LoadGpuModule();
  if (!module.ok()) return module.status();
  std::string why;
  const int seen = (*module)->count(&why);
  if (seen >= count) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("needs ", count, " GPUs, one for each rank, and there ",
                   std::max(seen, 0) == 1 ? "is 1" : absl::StrCat("are ", std::max(seen, 0))));
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& spec, int threads, int local_rank) {
  if (spec == "cpu") return std::make_unique<CpuDevice>(threads);
  if (spec == "auto") {
    if (absl::StatusOr<std::unique_ptr<Device>> gpu = OpenGpu(std::nullopt, local_rank); gpu.ok()) return gpu;
    return std::make_unique<CpuDevice>(threads);
  }
  int index = 0;
  const bool is_any = spec == "cuda";
  const bool is_gpu =
      is_any || (absl::StartsWith(spec, "cuda:") && absl::SimpleAtoi(absl::StripPrefix(spec, "cuda:"), &index) &&
                 index >= 0 && index <= std::numeric_limits<c10::DeviceIndex>::max());
  if (!is_gpu) {
    return absl::InvalidArgumentError(absl::StrCat("--device=", spec, ": expected auto, cpu, cuda or cuda:N"));
  }
  absl::StatusOr<std::unique_ptr<Device>> gpu = OpenGpu(is_any ? std::nullopt : std::optional<int>(index), local_rank);
  if (gpu.ok()) return gpu;
  return absl::InvalidArgumentError(
      absl::StrCat("--device=", spec, ": ", std::string(gpu.status().message()), " (--device=cpu works anywhere)"));
}

}  // namespace roofbench
