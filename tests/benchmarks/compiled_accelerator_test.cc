// SPDX-License-Identifier: Apache-2.0
// A case of `impl:compiled` on a GPU, from the call of the compiler to the checked result: the compiler is a script
// that packs a library of the tests' own, and the GPU the accelerator.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lib/run/session.h"
#include "lib/suite/family.h"
#include "lib/suite/inputs.h"
#include "test_paths.h"
#include "tests/base/temp_folder.h"
#include "tests/device/accelerator/accelerator_gpu.h"
#include "tests/suite/run_once.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
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

  CompiledOnAGpu() : device_(MakeAcceleratorDevice(machine_, gpu_)), softmax_(FamilyNamed("softmax")) {
    const std::string python = folder_ / "python";
    std::ofstream(python) << kPython;
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    setenv("ROOFBENCH_PYTHON", python.c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    setenv("FAKE_PACKAGE", ROOFBENCH_FAKE_PACKAGE, 1);
    setenv("FAKE_PACKAGE_CALLS", (folder_ / "calls").c_str(), 1);
    gpu_->fake_facts.index = 1;
    options_.reference = "a100-sxm4-40gb";
    options_.sampling.roof_share = 0;
    options_.sampling.max_samples = 2;
    options_.sampling.min_samples = 2;
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

  PlannedCase Planned() const {
    const Point point = softmax_.Points(Suite::kFull)[0]
                            .With("impl", "compiled")
                            .With("dtype", "bf16")
                            .With("rows", "48")
                            .With("d", "48");
    return {&softmax_, point, point.Name()};
  }
  Outcome Run() {
    Session session(options_, *device_, {Planned()}, nullptr);
    return session.Run(0);
  }
  std::vector<std::string> Calls() const { return Lines(ReadText(folder_ / "calls")); }
  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  TempFolder folder_;
  timing::FakeMachine machine_;
  AcceleratorGpu* gpu_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  const Family& softmax_;
  RunOptions options_;
};

TEST_F(CompiledOnAGpu, IsUnverified) {
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, HasSubstr("unverified: no GPU has run InductorPackage yet"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "arguments"));
}

TEST_F(CompiledOnAGpu, IsMadeForItLoadedThereAndChecked) {
  options_.unverified = true;
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  const std::string arguments = ReadText(folder_ / "arguments");
  EXPECT_THAT(arguments, HasSubstr("--gpu\nNVIDIA H200, sm_90\n"));
  EXPECT_THAT(arguments, HasSubstr("--device\ncuda:1\n"));
  EXPECT_THAT(arguments, HasSubstr("--input=bfloat16:48x48\n"));
  ASSERT_FALSE(Calls().empty());
  EXPECT_EQ(Calls()[0], "made for cuda:1, 1 at once");
}

// A step that takes turns waits for the run before it, so it cannot be captured in a graph.
TEST_F(CompiledOnAGpu, IsOneLaunchAndNoWait) {
  Inputs inputs(*device_, 1, "softmax");
  const auto built = softmax_.BuildAt(Planned().point, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  const accelerator::Counts before = accelerator::CountsNow();
  RunOnce(*built);
  const accelerator::Counts step = accelerator::CountsNow() - before;
  EXPECT_EQ(step.launches, 1);
  EXPECT_EQ(step.synchronisations, 0);
  EXPECT_THAT(Calls(), ElementsAre("made for cuda:1, 1 at once", "run by one thread"));
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
