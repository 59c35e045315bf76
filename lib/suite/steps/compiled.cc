// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/steps/compiled.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <c10/util/hash.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compile_package.h"
#include "lib/base/files.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/device/gpu.h"
#include "lib/hardware/device_facts.h"

namespace roofbench {
namespace {

using Loader = torch::inductor::AOTIModelPackageLoader;
namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status Unimplemented(const absl::Status& status) {
  return absl::UnimplementedError(std::string(status.message()));
}

// Path of this process's libtorch_cpu.so.
fs::path LibTorchCpu() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

// <prefix>/lib/python3.x/site-packages/torch/lib/libtorch_cpu.so belongs to <prefix>/bin/python3.
std::string Python() {
  if (std::string named = Variable("ROOFBENCH_PYTHON"); !named.empty()) return named;
  fs::path prefix = LibTorchCpu();
  for (int level = 0; level < 6; ++level) prefix = prefix.parent_path();
  const fs::path python = prefix / "bin" / "python3";
  std::error_code error;
  return fs::exists(python, error) ? python.string() : "python3";
}

// LibTorch's index of a GPU; -1 for a processor.
c10::DeviceIndex IndexOf(const Device& device) {
  return static_cast<c10::DeviceIndex>(device.gpu() == nullptr ? -1 : device.gpu()->facts().index);
}

// A GPU as identified by Python's torch; empty for a processor. Machine code for one kind of GPU does not run on
// others, and its layout (blocks, tiles) was tuned on this kind.
std::string KindOfGpu(const Device& device) {
  if (device.gpu() == nullptr) return "";
  const GpuFacts& facts = device.gpu()->facts();
  return absl::StrCat(facts.name, ", sm_", facts.compute_major, facts.compute_minor);
}

// torch's name of the type.
std::string TypeName(at::ScalarType type) {
  constexpr std::pair<at::ScalarType, const char*> kNames[] = {{at::kBFloat16, "bfloat16"},
                                                               {at::kFloat, "float32"},
                                                               {at::kHalf, "float16"},
                                                               {at::kChar, "int8"},
                                                               {at::kLong, "int64"}};
  for (const auto& [known, name] : kNames) {
    if (type == known) return name;
  }
  throw std::logic_error(absl::StrCat("no compiled operation takes ", c10::toString(type)));
}

// The arguments of tools/compile_package.py that decide the package's content: excludes the index of the GPU among
// several of its kind, and the path of the result.
std::vector<std::string> Arguments(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                   const Device& device, const CompileOptions& options) {
  std::vector<std::string> arguments = {
      "--operation",     operation,
      "--threads",       absl::StrCat(device.threads()),
      "--torch-version", absl::StrCat(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH)};
  if (device.gpu() != nullptr) arguments.insert(arguments.end(), {"--gpu", KindOfGpu(device)});
  for (const at::Tensor& input : inputs) {
    arguments.push_back(
        absl::StrCat("--input=", TypeName(input.scalar_type()), ":", absl::StrJoin(input.sizes(), "x")));
  }
  if (options.coordinate_descent_tuning) arguments.emplace_back("--coordinate-descent-tuning");
  return arguments;
}

// The exporter's own message in its output; otherwise the last line that is not a stack frame.
std::string ReasonIn(const std::string& output) {
  constexpr std::string_view kReason = "compile_package: ";
  constexpr std::string_view kFrame = "frame #";
  std::string last = "it said nothing";
  const std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipWhitespace());
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, View(kReason))) return line.substr(kReason.size());
    if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), View(kFrame))) last = line;
  }
  return last;
}

// Whether a full disk explains a failure.
bool IsFull(const fs::path& folder) {
  constexpr std::uintmax_t kLeast = 1 << 20;  // minimum size of a package, in bytes
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return !error && space.available < kLeast;
}

// Everything that decides a package's content, including this processor, for which host code is compiled.
std::string KeyOf(const std::vector<std::string>& arguments, const Device& device) {
  std::vector<std::string> parts = {kCompilePackageSource, absl::StrJoin(arguments, "\n"),
                                    hardware::ReadCpuFacts().model, at::get_cpu_capability(), Variable("CXX")};
  if (device.gpu() != nullptr) parts.push_back(device.gpu()->facts().cuda_runtime);
  return c10::sha1(absl::StrJoin(parts, "\n")).str();
}

absl::Status MakePackage(const std::vector<std::string>& arguments, const fs::path& package, const Device& device) {
  const absl::StatusOr<std::string> inductor = PrivateCacheFolder("inductor");
  if (!inductor.ok()) return Unimplemented(inductor.status());
  // Isolated (-I): excludes modules of the current folder and of PYTHONPATH.
  std::vector<std::string> command = {Python(), "-I", "-W", "ignore", "-c", kCompilePackageSource};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(),
                 {"--site-packages", LibTorchCpu().parent_path().parent_path().parent_path().string(),
                  "--inductor-cache", *inductor, "--parent", absl::StrCat(getpid()), "--output", package.string()});
  if (device.gpu() != nullptr) {
    command.insert(command.end(), {"--device", absl::StrCat("cuda:", static_cast<int>(IndexOf(device)))});
  }
  const absl::StatusOr<ChildResult> result = RunChild(command);
  if (!result.ok()) {
    return absl::UnimplementedError(absl::StrCat("there is no Python to compile it: ", result.status().message(),
                                                 " (ROOFBENCH_PYTHON names another)"));
  }
  if (result->exit_code != 0 || !fs::exists(package)) {
    return absl::UnimplementedError(
        absl::StrCat("it could not be compiled: ", ReasonIn(result->output),
                     IsFull(*inductor) ? absl::StrCat(" (the disk of ", *inductor, " is full)") : ""));
  }
  return absl::OkStatus();
}

// Compile time that the exporter stored next to the package; 0 if it is not a number.
double CompileSeconds(fs::path package) {
  std::ifstream file(package.replace_extension(".seconds"));
  double seconds = 0;
  return file >> seconds && seconds > 0 && std::isfinite(seconds) ? seconds : 0;
}

absl::StatusOr<std::shared_ptr<Loader>> Load(const fs::path& package, const Device& device) {
  // Packages depend on libtorch.so, an empty library over those that this program links. A loaded one is found.
  dlopen((LibTorchCpu().parent_path() / "libtorch.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  try {
    // For one caller at a time: otherwise a run waits until the device has finished the previous one, which a graph
    // cannot record.
    constexpr bool kSingleThreaded = true;
    return std::make_shared<Loader>(package.string(), "model", kSingleThreaded, /*num_runners=*/1, IndexOf(device));
  } catch (const std::exception& error) {
    return absl::UnimplementedError(absl::StrCat(
        package.string(), " cannot be loaded (delete it to have it made again): ", FirstLine(error.what())));
  }
}

}  // namespace

absl::StatusOr<CompiledOperation> Compile(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                          const Device& device, const CompileOptions& options) {
  // Packages run with the rights of this user, so other users must not be able to write there.
  const absl::StatusOr<std::string> packages = PrivateCacheFolder("compiled");
  if (!packages.ok()) return Unimplemented(packages.status());
  const std::vector<std::string> arguments = Arguments(operation, inputs, device, options);
  const std::string key = KeyOf(arguments, device);
  const fs::path package = fs::path(*packages) / absl::StrCat(operation, "-", key, ".pt2");
  // Loaded once for all cold copies, and unloaded with the last of them, because its code is unpacked into a temporary
  // folder.
  static auto& loaders = *new std::map<std::pair<std::string, c10::DeviceIndex>, std::weak_ptr<Loader>>();
  CompileTimes times{.packages = 1};
  std::weak_ptr<Loader>& loaded_before = loaders[{key, IndexOf(device)}];
  std::shared_ptr<Loader> loader = loaded_before.lock();
  if (loader == nullptr) {
    absl::Status status = CheckPrivate(package.string());
    if (absl::IsNotFound(status)) {
      status = MakePackage(arguments, package, device);
      if (status.ok()) status = CheckPrivate(package.string());
      times.made = 1;
    }
    if (!status.ok()) return Unimplemented(status);
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<std::shared_ptr<Loader>> loaded = Load(package, device);
    if (!loaded.ok()) return loaded.status();
    times.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loader = *std::move(loaded);
    loaded_before = loader;
  }
  times.made_seconds = CompileSeconds(package);
  return CompiledOperation{.run = [loader](const std::vector<at::Tensor>& tensors) { return loader->run(tensors); },
                           .times = times};
}

absl::StatusOr<CompiledOperation> CompilePart(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                              Inputs& in) {
  absl::StatusOr<CompiledOperation> part = Compile(operation, inputs, in.device(), in.compile_options());
  if (part.ok()) in.AddCompiled(part->times);
  return part;
}

}  // namespace roofbench
