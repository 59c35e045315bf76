// SPDX-License-Identifier: Apache-2.0
// A case of `impl:compiled` on a GPU, from the call of the compiler to the checked result: the compiler is a script
// that packs a library of the tests' own, and the GPU the accelerator.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "test_paths.h"
#include "tests/base/temp_folder.h"
#include "tests/benchmarks/every_case.h"
#include "tests/device/accelerator/accelerator_gpu.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

// Replaces the registration of "cuda" in libtorch_cuda.so.
class Runner final : public torch::inductor::AOTIModelContainerRunner {
 public:
  Runner(const std::string& library, std::size_t models, const std::string& device, const std::string& kernels,
         bool single_threaded)
      : AOTIModelContainerRunner(library, models, device, kernels, single_threaded) {}
  static std::unique_ptr<AOTIModelContainerRunner> Make(const std::string& library, std::size_t models,
                                                        const std::string& device, const std::string& kernels,
                                                        bool single_threaded) {
    return std::make_unique<Runner>(library, models, device, kernels, single_threaded);
  }
};

// Records its arguments, and packs the library as Inductor packs its own.
constexpr char kPython[] = R"(#!/usr/bin/env python3
import os, sys, zipfile
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/arguments", "a") as notes:
    notes.write("\n".join(argument for argument in sys.argv[1:] if "import" not in argument) + "\n")
with zipfile.ZipFile(sys.argv[sys.argv.index("--output") + 1], "w") as package:
    folder = "package/data/aotinductor/model/"
    package.write(os.environ["FAKE_PACKAGE"], folder + "softmax.wrapper.so")
    package.writestr(folder + "softmax.wrapper.cpp", "// of which the library is made")
    package.writestr(folder + "softmax.wrapper_metadata.json", '{"AOTI_DEVICE_KEY": "cuda"}')
    package.writestr("package/archive_format", "pt2")
)";

class CompiledOnAGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // LibTorch registers its own when libtorch.so is loaded, which packages name.
    ASSERT_NE(dlopen((LibTorch() / "libtorch.so").c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    torch::inductor::getAOTIModelRunnerRegistry()["cuda"] = &Runner::Make;
  }

  CompiledOnAGpu() : device_(MakeAcceleratorDevice(machine_, gpu_)) {
    const std::string python = folder_ / "python";
    std::ofstream(python) << kPython;
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    setenv("ROOFBENCH_PYTHON", python.c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    setenv("FAKE_PACKAGE", ROOFBENCH_FAKE_PACKAGE, 1);
    setenv("FAKE_PACKAGE_CALLS", (folder_ / "calls").c_str(), 1);
    gpu_->fake_facts.index = 1;
  }
  ~CompiledOnAGpu() override {
    for (const char* name : {"ROOFBENCH_PYTHON", "XDG_CACHE_HOME", "FAKE_PACKAGE", "FAKE_PACKAGE_CALLS"})
      unsetenv(name);
  }

  // The folder of its libraries: AddressSanitizer's dlopen searches the system's folders alone.
  static std::filesystem::path LibTorch() {
    Dl_info registry;
    if (dladdr(reinterpret_cast<const void*>(&torch::inductor::getAOTIModelRunnerRegistry), &registry) == 0) return {};
    return std::filesystem::path(registry.dli_fname).parent_path();
  }

  Outcome Run() {
    Session session(options_, *device_, {planned_}, nullptr);
    return session.Run(0);
  }
  std::string Calls() const { return ReadText(folder_ / "calls"); }

  TempFolder folder_;
  timing::FakeMachine machine_;
  AcceleratorGpu* gpu_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  const PlannedCase planned_ =
      CaseAt("softmax", {{"impl", "compiled"}, {"dtype", "bf16"}, {"rows", "48"}, {"d", "48"}});
  RunOptions options_ = FewSamples(2, 2);
};

TEST_F(CompiledOnAGpu, IsUnverified) {
  options_.unverified = false;
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, HasSubstr("unverified: no GPU has run InductorPackage yet"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "arguments"));
}

TEST_F(CompiledOnAGpu, IsMadeForItLoadedThereAndChecked) {
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  const std::string arguments = ReadText(folder_ / "arguments");
  EXPECT_THAT(arguments, HasSubstr("--gpu\nNVIDIA H200, sm_90\n"));
  EXPECT_THAT(arguments, HasSubstr("--device\ncuda:1\n"));
  EXPECT_THAT(arguments, HasSubstr("--input=bfloat16:48x48\n"));
  EXPECT_THAT(Calls(), testing::StartsWith("made for cuda:1, 1 at once\n"));
  const auto made = [](const Outcome& one) {
    return std::ranges::find(one.counters, "recompiles", [](const auto& counter) { return counter.first; })->second;
  };
  EXPECT_EQ(made(outcome), 1);
  EXPECT_EQ(made(Run()), 0) << "the package was kept";
  EXPECT_EQ(ReadText(folder_ / "arguments"), arguments);
}

// A step that takes turns waits for the run before it, so it cannot be captured in a graph.
TEST_F(CompiledOnAGpu, IsOneLaunchAndNoWait) {
  Inputs inputs(*device_, 1, "softmax");
  const auto built = planned_.family->BuildAt(planned_.point, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  const accelerator::Counts before = accelerator::CountsNow();
  RunOnce(*built);
  const accelerator::Counts step = accelerator::CountsNow() - before;
  EXPECT_EQ(step.launches, 1);
  EXPECT_EQ(step.synchronizations, 0);
  EXPECT_EQ(Calls(), "made for cuda:1, 1 at once\nrun by one thread\n");
}

TEST_F(CompiledOnAGpu, EveryCompiledImplementationForGpusIsUnverifiedThere) {
  int on_gpus = 0;
  for (const Family& family : Families()) {
    for (const Implementation& one : family.implementations()) {
      if (one.name != "compiled") continue;
      if (one.on_gpu) ++on_gpus;
      EXPECT_EQ(one.GpuProof(), one.on_gpu ? Proof::kUnverified : Proof::kNone) << family.name();
      EXPECT_EQ(one.CpuProof(), Proof::kChecked) << family.name();
    }
  }
  EXPECT_GE(on_gpus, 5);
}

}  // namespace
}  // namespace roofbench
