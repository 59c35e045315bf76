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
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/process.h"
#include "lib/device/gpu_device.h"
#include "tests/base/temp_folder.h"
#include "tests/device/fake_device.h"
#include "tests/device/fake_gpu.h"

namespace roofbench {
namespace {

using std::filesystem::perms;
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

// With a cache of its own, and as Python a script that records its arguments and writes a file in place of the package.
class CompiledTest : public testing::Test {
 protected:
  CompiledTest() {
    SetPython("printf '%s\\n' \"$@\" >" + (folder_ / "arguments") +
              "\nwhile [ \"$1\" != --output ]; do shift; done\necho spoilt >\"$2\"");
  }
  void SetPython(const std::string& script) {
    std::ofstream(folder_ / "python") << "#!/bin/sh\n" << script << '\n';
    std::filesystem::permissions(folder_ / "python", perms::owner_all);
  }
  std::string Arguments() const { return ReadText(folder_ / "arguments"); }
  std::size_t Packages() const {
    const std::filesystem::directory_iterator all(packages_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  static absl::Status Compile(const Device& device = FakeDevice()) {
    return roofbench::Compile("softmax", {at::ones({2, 8})}, device).status();
  }
  // On a GPU with these facts, whose tensors are the host's.
  static absl::Status CompileOn(const std::function<void(GpuFacts&)>& change) {
    timing::FakeMachine machine;
    auto gpu = std::make_unique<FakeGpu>(machine);
    change(gpu->fake_facts);
    GpuParts parts;
    parts.gpu = std::move(gpu);
    parts.torch_device = at::kCPU;
    return Compile(GpuDevice(std::move(parts)));
  }
  // The script is called; its package is not one.
  static void ExpectMade(const absl::Status& status) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be loaded"));
  }
  static void ExpectAbsent(const absl::Status& status, const std::string& reason) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }

  const TempFolder folder_;
  const std::string packages_ = folder_ / "cache/roofbench/compiled";
  const Environment cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  const Environment python_{"ROOFBENCH_PYTHON", folder_ / "python"};
};

TEST_F(CompiledTest, IsAbsentWithoutAPython) {
  std::filesystem::remove(folder_ / "python");
  const absl::Status status = Compile();
  ExpectAbsent(status, "there is no Python to compile it");
  ExpectAbsent(status, folder_ / "python");
}

TEST_F(CompiledTest, IsAbsentWithoutACompiler) {
  const Environment python("ROOFBENCH_PYTHON", "");
  const Environment compiler("CXX", "no-such-compiler");
  // The system's Python may lack torch: the compiler is looked for first.
  ExpectAbsent(Compile(), "no-such-compiler is not on the PATH");
  EXPECT_EQ(Packages(), 0U);
}

TEST_F(CompiledTest, IsAbsentWhereNothingCanBeKept) {
  std::ofstream(folder_ / "file") << "in the way";
  const Environment cache("XDG_CACHE_HOME", folder_ / "file");
  ExpectAbsent(Compile(), folder_ / "file");
}

// The exporter's own message, or the last line that is not a stack frame.
TEST_F(CompiledTest, AFailureNamesItsReason) {
  for (const char* said : {"echo first; echo the reason", "echo 'compile_package: the reason'; echo a later line",
                           "echo the reason; echo 'frame #0: x'"}) {
    SetPython(std::string("{ ") + said + "; } >&2\nexit 3");
    EXPECT_THAT(std::string(Compile().message()), testing::EndsWith("could not be compiled: the reason"));
  }
}

TEST_F(CompiledTest, RunsAnIsolatedPythonWithACacheOfItsOwn) {
  ExpectMade(Compile());
  EXPECT_THAT(Arguments(), testing::StartsWith("-I\n"));
  EXPECT_THAT(Arguments(), HasSubstr("--inductor-cache\n" + (folder_ / "cache/roofbench/inductor") + "\n"));
  for (const char* name : {"cache/roofbench", "cache/roofbench/compiled", "cache/roofbench/inductor"}) {
    EXPECT_EQ(std::filesystem::status(folder_ / name).permissions(), perms::owner_all) << name;
  }
}

TEST_F(CompiledTest, TheCompilerIsGivenTheGpu) {
  ExpectMade(Compile());
  EXPECT_THAT(Arguments(), testing::Not(testing::ContainsRegex("\n--(device|gpu)\n")));
  ExpectMade(CompileOn([](GpuFacts& facts) { facts.index = 3; }));
  EXPECT_THAT(Arguments(), HasSubstr("--gpu\nNVIDIA H200, sm_90\n"));
  EXPECT_THAT(Arguments(), HasSubstr("--device\ncuda:3\n"));
}

TEST_F(CompiledTest, EachKindOfGpuHasItsOwnPackage) {
  ExpectMade(Compile());
  std::size_t packages = 1;
  EXPECT_EQ(Packages(), packages);
  const std::function<void(GpuFacts&)> changes[] = {
      [](GpuFacts&) {}, [](GpuFacts& facts) { facts.name = "NVIDIA H100"; },
      [](GpuFacts& facts) { facts.compute_minor = 1; }, [](GpuFacts& facts) { facts.cuda_runtime = "12.8"; }};
  for (const auto& change : changes) {
    ExpectMade(CompileOn(change));
    EXPECT_EQ(Packages(), ++packages);
  }
  // Two GPUs of one kind share their packages.
  static_cast<void>(CompileOn([](GpuFacts& facts) { facts.index = 1; }));
  EXPECT_EQ(Packages(), packages);
}

TEST_F(CompiledTest, AnotherTuningIsAnotherPackage) {
  const FakeDevice device;
  const std::vector<at::Tensor> inputs = {at::ones({2, 8}), at::ones({8}, at::kChar), at::ones({8}, at::kLong)};
  for (const bool tuned : {false, true}) {
    EXPECT_FALSE(roofbench::Compile("softmax", inputs, device, {.coordinate_descent_tuning = tuned}).ok());
    EXPECT_EQ(Arguments().find("--coordinate-descent-tuning\n") != std::string::npos, tuned);
    EXPECT_THAT(Arguments(), HasSubstr("--input=float32:2x8\n--input=int8:8\n--input=int64:8\n"));
  }
  EXPECT_EQ(Packages(), 2U);
}

TEST_F(CompiledTest, PackagesThatOthersCanWriteAreRefused) {
  ExpectMade(Compile());
  const std::filesystem::path package = std::filesystem::directory_iterator(packages_)->path();
  std::filesystem::permissions(package, perms::others_write, std::filesystem::perm_options::add);
  ExpectAbsent(Compile(), package.string() + " can be written by other users");
  std::filesystem::permissions(package, perms::others_write, std::filesystem::perm_options::remove);
  std::filesystem::permissions(packages_, perms::group_write, std::filesystem::perm_options::add);
  ExpectAbsent(Compile(), packages_ + " can be written by other users");
}

TEST(RunChild, ReturnsOutputAndExitCodeOrSignal) {
  const auto result = RunChild({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(RunChild({"sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
}

}  // namespace
}  // namespace roofbench
