// SPDX-License-Identifier: Apache-2.0
// Missing dependencies are reported before torch is imported, so that these tests are quick. The packages themselves:
// compiled_slow_test.cc.

#include "lib/suite/steps/compiled.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "lib/base/process.h"
#include "lib/device/gpu_device.h"
#include "tests/base/temp_folder.h"
#include "tests/device/fake_device.h"
#include "tests/device/fake_gpu.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

// A variable of the environment for the time of a test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

absl::Status CompileSoftmax() {
  const FakeDevice device;
  return Compile("softmax", {at::ones({2, 8})}, device).status();
}

TEST(Compiled, IsAbsentWithoutAPython) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", folder / "python");
  const absl::Status status = CompileSoftmax();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no Python to compile it"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "python"));
}

TEST(Compiled, IsAbsentWithoutACompiler) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment compiler("CXX", "no-such-compiler");
  // The system's Python may lack torch: the compiler is looked for first.
  const absl::Status status = CompileSoftmax();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-compiler is not on the PATH"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "cache/roofbench/compiled"));
}

TEST(Compiled, SaysTheLastLineOfAFailure) {
  const TempFolder folder;
  const std::string script = folder / "python";
  std::ofstream(script) << "#!/bin/sh\necho first\necho the reason >&2\nexit 3\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", script);
  EXPECT_THAT(std::string(CompileSoftmax().message()), testing::EndsWith("could not be compiled: the reason"));
}

// A Python that records its arguments, and writes a file in place of the package.
std::string FakePython(const TempFolder& folder) {
  const std::string script = folder / "python";
  std::ofstream(script) << "#!/bin/sh\nprintf '%s\\n' \"$@\" >" << folder / "arguments"
                        << "\nwhile [ \"$1\" != --output ]; do shift; done\necho spoilt >\"$2\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  return script;
}

TEST(Compiled, RunsAnIsolatedPythonWithACacheOfItsOwn) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", FakePython(folder));
  EXPECT_THAT(std::string(CompileSoftmax().message()), HasSubstr("cannot be loaded"));
  const std::string arguments = ReadText(folder / "arguments");
  EXPECT_THAT(arguments, testing::StartsWith("-I\n"));
  EXPECT_THAT(arguments, HasSubstr("--inductor-cache\n" + (folder / "cache/roofbench/inductor") + "\n"));
  for (const char* name : {"cache/roofbench", "cache/roofbench/compiled", "cache/roofbench/inductor"}) {
    EXPECT_EQ(std::filesystem::status(folder / name).permissions(), std::filesystem::perms::owner_all) << name;
  }
}

// Names of the existing packages.
std::set<std::string> Packages(const TempFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache/roofbench/compiled")) {
    names.insert(entry.path().filename());
  }
  return names;
}

// A GPU with these facts, whose tensors are the host's.
absl::Status CompileSoftmaxOn(const std::function<void(GpuFacts&)>& change) {
  timing::FakeMachine machine;
  auto gpu = std::make_unique<FakeGpu>(machine);
  change(gpu->fake_facts);
  GpuParts parts;
  parts.gpu = std::move(gpu);
  parts.torch_device = at::kCPU;
  const GpuDevice device(std::move(parts));
  return Compile("softmax", {at::ones({2, 8})}, device).status();
}

TEST(Compiled, TellsTheCompilerWhichGpu) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", FakePython(folder));
  EXPECT_THAT(std::string(CompileSoftmax().message()), HasSubstr("cannot be loaded"));
  EXPECT_THAT(ReadText(folder / "arguments"), testing::Not(testing::ContainsRegex("\n--(device|gpu)\n")));
  EXPECT_THAT(std::string(CompileSoftmaxOn([](GpuFacts& facts) { facts.index = 3; }).message()),
              HasSubstr("cannot be loaded"));
  const std::string arguments = ReadText(folder / "arguments");
  EXPECT_THAT(arguments, HasSubstr("--gpu\nNVIDIA H200, sm_90\n"));
  EXPECT_THAT(arguments, HasSubstr("--device\ncuda:3\n"));
}

TEST(Compiled, OfOneGpuIsNeverThatOfAnother) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", FakePython(folder));
  std::size_t packages = 0;
  const auto expect_another = [&](const std::function<void(GpuFacts&)>& change) {
    EXPECT_THAT(std::string(CompileSoftmaxOn(change).message()), HasSubstr("cannot be loaded"));
    EXPECT_EQ(Packages(folder).size(), ++packages);
  };
  static_cast<void>(CompileSoftmax());
  packages = Packages(folder).size();
  ASSERT_EQ(packages, 1U);
  expect_another([](GpuFacts&) {});
  expect_another([](GpuFacts& facts) { facts.name = "NVIDIA H100"; });
  expect_another([](GpuFacts& facts) { facts.compute_minor = 1; });
  expect_another([](GpuFacts& facts) { facts.cuda_runtime = "12.8"; });
  // Two GPUs of one kind share their packages.
  static_cast<void>(CompileSoftmaxOn([](GpuFacts& facts) { facts.index = 1; }));
  EXPECT_EQ(Packages(folder).size(), packages);
}

TEST(Compiled, IsAnotherPackageWithAnotherTuning) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", FakePython(folder));
  const FakeDevice device;
  const std::vector<at::Tensor> inputs = {at::ones({2, 8}), at::ones({8}, at::kChar), at::ones({8}, at::kLong)};
  for (const bool tuned : {false, true}) {
    EXPECT_FALSE(Compile("softmax", inputs, device, {.coordinate_descent_tuning = tuned}).ok());
    const std::string arguments = ReadText(folder / "arguments");
    EXPECT_EQ(arguments.find("--coordinate-descent-tuning\n") != std::string::npos, tuned);
    EXPECT_THAT(arguments, HasSubstr("--input=float32:2x8\n--input=int8:8\n--input=int64:8\n"));
  }
  EXPECT_EQ(Packages(folder).size(), 2U);
}

TEST(Compiled, TrustsNoPackageThatOthersCouldHaveWritten) {
  const TempFolder folder;
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", FakePython(folder));
  EXPECT_THAT(std::string(CompileSoftmax().message()), HasSubstr("cannot be loaded"));
  const std::string packages = folder / "cache/roofbench/compiled";
  const std::filesystem::path package = std::filesystem::directory_iterator(packages)->path();
  using std::filesystem::perms;
  std::filesystem::permissions(package, perms::others_write, std::filesystem::perm_options::add);
  EXPECT_THAT(std::string(CompileSoftmax().message()), HasSubstr(package.string() + " can be written by other users"));
  std::filesystem::permissions(package, perms::others_write, std::filesystem::perm_options::remove);
  std::filesystem::permissions(packages, perms::group_write, std::filesystem::perm_options::add);
  EXPECT_THAT(std::string(CompileSoftmax().message()), HasSubstr(packages + " can be written by other users"));
}

TEST(Compiled, SaysAReasonAndNoFrameOfAStack) {
  const TempFolder folder;
  const std::string script = folder / "python";
  const Environment cache("XDG_CACHE_HOME", folder / "cache");
  const Environment python("ROOFBENCH_PYTHON", script);
  for (const char* said :
       {"echo 'compile_package: the reason'; echo a later line", "echo the reason; echo 'frame #0: x'"}) {
    std::ofstream(script) << "#!/bin/sh\n" << said << " >&2\nexit 3\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    EXPECT_THAT(std::string(CompileSoftmax().message()), testing::EndsWith("could not be compiled: the reason"));
  }
}

TEST(Compiled, IsAbsentWhereNothingCanBeKept) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const Environment cache("XDG_CACHE_HOME", folder / "file");
  const absl::Status status = CompileSoftmax();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file"));
}

TEST(RunChild, TellsOutputAndExitCode) {
  const auto result = RunChild({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_EQ(result->output, "out\nerr\n");
}

TEST(RunChild, TellsASignal) {
  const auto result = RunChild({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 128 + 9);
}

}  // namespace
}  // namespace roofbench
