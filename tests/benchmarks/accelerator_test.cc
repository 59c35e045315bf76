// SPDX-License-Identifier: Apache-2.0
// Every family on a device whose tensors are separate from the host's, with CUDA's rules: the path of LibTorch's
// operators on a GPU.

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/gemm_probes.h"
#include "tests/base/temp_folder.h"
#include "tests/benchmarks/compact.h"
#include "tests/benchmarks/every_case.h"
#include "tests/benchmarks/host_gemv.h"
#include "tests/benchmarks/small_points.h"
#include "tests/device/accelerator/accelerator_gpu.h"
#include "tests/source_dir.h"

namespace roofbench {
namespace {

// Cases that run without native kernels. `published` is left out: apart from generating hundreds of tokens, its cases
// are those of `generate`.
std::vector<PlannedCase> TorchPoints() {
  std::vector<PlannedCase> points;
  for (const PlannedCase& planned : SmallPoints()) {
    if (planned.family->name() == "published") continue;
    const Implementation* const implementation = planned.family->ImplementationOf(planned.point);
    if (implementation == nullptr || (implementation->on_gpu && implementation->kernels.empty())) {
      points.push_back(planned);
    }
  }
  return points;
}

// The native kernels that the int8 steps of LibTorch's operators use.
constexpr kernels::GpuKernels kTable{.version = kernels::kGpuKernelsVersion,
                                     .rms_norm = nullptr,
                                     .layer_norm = nullptr,
                                     .softmax = nullptr,
                                     .gemv = [](const kernels::GemvArguments& a, void*) {
                                       accelerator::Launch("gemv", [a] { EXPECT_EQ(HostGemv(a), 0); });
                                       return 0;
                                     }};

class AcceleratorTest : public testing::TestWithParam<PlannedCase> {
 protected:
  AcceleratorTest() : device_(MakeAcceleratorDevice(machine_, gpu_)) {
    gpu_->exports[kernels::kGpuKernelsSymbol] = &kTable;
  }

  timing::FakeMachine machine_;
  AcceleratorGpu* gpu_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  const RunOptions options_ = FewSamples(2, 3);
};

TEST_P(AcceleratorTest, IsRight) { IsRightTwice(GetParam(), options_, *device_); }

INSTANTIATE_TEST_SUITE_P(Families, AcceleratorTest, testing::ValuesIn(TorchPoints()), TestNameOf);

// A recording is preceded by real steps, whose results must not pass for the graph's.
TEST_F(AcceleratorTest, AGraphThatDoesNothingFails) {
  gpu_->replays = false;
  std::set<std::string> families;
  for (const PlannedCase& planned : TorchPoints()) {
    const Implementation* const implementation = planned.family->ImplementationOf(planned.point);
    if (implementation == nullptr || implementation->name != "graph") continue;
    Session session(options_, *device_, {planned}, nullptr);
    const Outcome& outcome = session.Run(0);
    if (outcome.verdict == Verdict::kSkipped) continue;
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << planned.name;
    families.insert(planned.family->name());
  }
  EXPECT_THAT(families, testing::IsSupersetOf({"matmul", "mlp", "train_step", "generate", "decode"}));
}

// LibTorch refuses to compare tensors of two devices, where a checker has results of one and a reference of the other.
TEST_F(AcceleratorTest, AResultIsComparedWithAReferenceOnTheHost) {
  const at::Tensor reference = at::arange(12, at::kFloat);
  const at::Tensor result = reference.to(device_->torch_device());
  EXPECT_ANY_THROW(static_cast<void>(at::equal(result, reference)));
  EXPECT_TRUE(CompareTensors(result, reference, Tolerance{}, "result").ok());
  EXPECT_FALSE(CompareTensors(result, reference + 1, Tolerance{}, "result").ok());
}

// Preparing data on the host for a GPU takes minutes, and waits for the bus.
TEST_F(AcceleratorTest, RandomDataIsMadeThere) {
  Inputs inputs(*device_, 1, "data");
  const accelerator::Counts before = accelerator::CountsNow();
  const at::Tensor numbers = inputs.Randn({64, 64});
  const at::Tensor integers = inputs.Integers(0, 9, {64});
  const accelerator::Counts made = accelerator::CountsNow() - before;
  EXPECT_EQ(numbers.device(), device_->torch_device());
  EXPECT_EQ(integers.device(), device_->torch_device());
  std::set<std::string> names;
  for (const auto& [name, count] : made.operators) {
    if (count > 0) names.insert(name);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("aten::normal_", "aten::random_"));
}

TEST_F(AcceleratorTest, CodesOfInt4AreMadeThere) {
  for (const char* impl : {"eager", "native"}) {
    const PlannedCase planned = CaseAt("gemv", {{"impl", impl}, {"precision", "int4"}, {"n", "128"}, {"k", "128"}});
    Inputs inputs(*device_, 1, planned.name);
    const accelerator::Counts before = accelerator::CountsNow();
    ASSERT_TRUE(planned.family->BuildAt(planned.point, inputs).ok());
    EXPECT_EQ((accelerator::CountsNow() - before).operators["aten::random_"], 1) << impl;
  }
}

// cuDNN, which LibTorch prefers on Hopper, may have no plan for keys with a stride of 0 over the heads of a group.
TEST_F(AcceleratorTest, HeadsThatShareKeysAreNotLeftToCudnn) {
  for (const auto& [kv_heads, allowed] : {std::pair("2", false), {"4", true}}) {
    const PlannedCase planned = CaseAt(
        "attention",
        {{"impl", "sdpa"}, {"dtype", "bf16"}, {"heads", "4"}, {"kv_heads", kv_heads}, {"keys", "32"}, {"d", "16"}});
    Inputs inputs(*device_, 1, planned.name);
    const auto built = planned.family->BuildAt(planned.point, inputs);
    ASSERT_TRUE(built.ok()) << built.status();
    std::set<bool> seen;
    accelerator::OnLaunch([&] { seen.insert(at::globalContext().userEnabledCuDNNSDP()); });
    RunOnce(*built);
    accelerator::OnLaunch(nullptr);
    EXPECT_THAT(seen, testing::ElementsAre(allowed)) << kv_heads;
    EXPECT_TRUE(at::globalContext().userEnabledCuDNNSDP()) << "it is allowed again";
  }
}

// A product that the device refuses, or one in another precision, would be a roof that is wrong in silence.
TEST_F(AcceleratorTest, ProbesOfProductsRunInTheirPrecision) {
  using workload::Dtype;
  for (const auto& [dtype, product] :
       {std::pair(Dtype::kInt8, "aten::_int_mm"), {Dtype::kFp32, "aten::mm"}, {Dtype::kTf32, "aten::mm"}}) {
    std::vector<std::string> faults;
    auto probes = GpuGemmProbes(dtype, device_->torch_device(), device_->NewClock(),
                                [&](std::string fault) { faults.push_back(std::move(fault)); });
    const accelerator::Counts before = accelerator::CountsNow();
    std::optional<bool> tf32;
    // One product is enough.
    accelerator::OnLaunch([&, product = product] {
      if ((accelerator::CountsNow() - before).operators[product] == 0) return;
      tf32 = at::globalContext().allowTF32CuBLAS();
      TORCH_CHECK(false, "enough");
    });
    EXPECT_EQ(probes.front().second(1e-3), 0);
    accelerator::OnLaunch(nullptr);
    EXPECT_THAT(faults, testing::ElementsAre(std::string(Name(dtype)) + " gemm 4096: enough"));
    EXPECT_EQ(tf32, dtype == Dtype::kTf32);
    EXPECT_EQ(probes.front().second(1e-3), 0) << "it is not tried again";
    EXPECT_EQ(faults.size(), 1);
  }
}

class LaunchesTest : public AcceleratorTest {
 protected:
  // The launches and waits of a warm step; none where the device cannot run the case.
  std::optional<std::pair<int64_t, int64_t>> CountsOf(const PlannedCase& planned) {
    if (!planned.family->SupportOf(planned.point, *device_).ok()) return std::nullopt;
    Inputs inputs(*device_, 1, planned.name);
    const auto built = planned.family->BuildAt(planned.point, inputs);
    if (!built.ok()) return std::nullopt;
    const at::AutoGradMode grad(built->autograd);
    RunOnce(*built);
    const accelerator::Counts before = accelerator::CountsNow();
    RunOnce(*built);
    const accelerator::Counts step = accelerator::CountsNow() - before;
    return std::pair(step.launches, step.synchronizations);
  }
};

// A launch costs a GPU's host microseconds, and a wait all that was enqueued ahead: more of either is a slower step.
TEST_F(LaunchesTest, AreThoseOfTheGoldenList) {
  const std::string path = SourceDir() + "/tests/golden/launches.txt";
  std::vector<PlannedCase> points = TorchPoints();
  // Prompts of a mixture are registered among the published generations alone.
  for (const char* precision : {"bf16", "int8", "llm_int8"}) {
    for (const char* prompt : {"1", "6", "48"}) {
      points.push_back(CaseAt(
          "prefill", {{"impl", "eager"}, {"model", "tiny_mixtral"}, {"precision", precision}, {"prompt", prompt}}));
    }
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<std::string>> names;
  for (const PlannedCase& planned : points) {
    if (const auto counts = CountsOf(planned)) names[*counts].push_back(planned.name);
  }
  std::string lines;
  for (const auto& [counts, alike] : names) {
    for (const std::string& line : Compact(alike))
      absl::StrAppend(&lines, counts.first, " ", counts.second, " ", line, "\n");
  }
  if (std::getenv("ROOFBENCH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << lines;
  EXPECT_EQ(lines, ReadText(path)) << "launches and waits of a step, cases; if they are meant to change: "
                                      "ROOFBENCH_UPDATE_GOLDEN=1 build/release/bin/benchmarks_test "
                                      "--gtest_filter='LaunchesTest*'";
}

}  // namespace
}  // namespace roofbench
