// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gpu_module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

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
        " is not beside the program): build with a CUDA toolkit and a CUDA build of LibTorch, -DROOFBENCH_CUDA=ON"));
  }());
  return *opened;
}

}  // namespace roofbench
