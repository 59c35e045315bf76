// SPDX-License-Identifier: Apache-2.0
// Making and checking a case takes no more memory than its formula states, or admission lets in what does not fit.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lib/device/cpu_device.h"
#include "lib/hardware/process_memory.h"
#include "lib/observe/peak_memory.h"
#include "tests/benchmarks/every_case.h"

namespace roofbench {
namespace {

// Blocks of a million elements, in fp32 and in double precision.
constexpr double kBlocks = 32e6;

class BuildMemory : public testing::TestWithParam<PlannedCase> {
 protected:
  // The memory that building, running and checking the case may take.
  double Allowed() const {
    const double predicted = GetParam().family->CostOf(GetParam().point).resident_bytes;
    EXPECT_GT(predicted, kBlocks) << "the case is too small";
    return 1.1 * predicted + kBlocks;
  }
  void Build() {
    const at::NoGradGuard no_grad;
    BuildRight(GetParam(), device_, /*seed=*/1, built_);
  }
  // Of the last build.
  void Clear() {
    built_ = {};
    hardware::ReleaseFreedMemory();
  }

  CpuDevice device_{1};

 private:
  Case built_;
};

TEST_P(BuildMemory, OfTensorsIsWithinThePrediction) {
  const PlannedCase& planned = GetParam();
  if (const absl::Status supported = planned.family->SupportOf(planned.point, device_); !supported.ok()) {
    GTEST_SKIP() << supported;
  }
  const absl::Status bf16 = device_.Supports(workload::Dtype::kBf16);
  if (planned.point.Text("impl") == "onednn" && !bf16.ok()) GTEST_SKIP() << "oneDNN packs no weights: " << bf16;
  const observe::PeakMemory memory;
  Build();
  EXPECT_LE(memory.PeakBytes(), Allowed());
}

INSTANTIATE_TEST_SUITE_P(
    Products, BuildMemory,
    testing::Values(
        CaseAt("gather_gemv", {{"impl", "eager"}, {"precision", "bf16"}, {"n", "1536"}}),
        CaseAt("gather_gemv", {{"impl", "onednn"}, {"precision", "bf16"}, {"n", "1536"}}),
        CaseAt("gather_gemv", {{"impl", "native"}, {"precision", "int8"}, {"n", "2048"}}),
        CaseAt("gemv", {{"impl", "eager"}, {"precision", "fp32"}, {"n", "3072"}}),
        CaseAt("gemv", {{"impl", "native"}, {"precision", "int4"}, {"n", "10240"}}),
        CaseAt("gemv", {{"impl", "eager"}, {"precision", "int4"}, {"n", "10240"}}),
        CaseAt("matmul", {{"impl", "eager"}, {"dtype", "bf16"}, {"m", "16"}, {"n", "4352"}, {"k", "4352"}}),
        CaseAt("softmax", {{"impl", "eager"}, {"dtype", "bf16"}, {"d", "4096"}}),
        CaseAt("cross_entropy", {{"impl", "eager"}, {"dtype", "fp32"}, {"rows", "512"}, {"d", "65536"}}),
        CaseAt("cross_entropy",
               {{"impl", "eager"}, {"pass", "forward_backward"}, {"dtype", "fp32"}, {"rows", "512"}, {"d", "65536"}}),
        CaseAt("embedding", {{"impl", "eager"}, {"dtype", "bf16"}, {"d", "768"}})),
    TestNameOf);

#ifndef __SANITIZE_ADDRESS__  // keeps what is freed
class ElementwiseMemory : public BuildMemory {};

// These allocate little but their operands, so that the system's count suffices. It counts pages of code as well, which
// come back one by one where the system had dropped them for another process: those of the first attempt are there in
// the next.
TEST_P(ElementwiseMemory, OfTheProcessIsWithinThePrediction) {
  constexpr int kAttempts = 3;
  double least = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < kAttempts && least > Allowed(); ++attempt) {
    Clear();
    const hardware::ProcessMemory process;
    if (!process.PeakBytes()) GTEST_SKIP() << "the system keeps no high-water mark";
    Build();
    least = std::min(least, *process.PeakBytes() - process.bytes_before());
  }
  EXPECT_LE(least, Allowed());
}

INSTANTIATE_TEST_SUITE_P(
    Elementwise, ElementwiseMemory,
    testing::Values(CaseAt("gelu", {{"impl", "eager"}, {"dtype", "bf16"}, {"elements", "33554432"}}),
                    CaseAt("silu_mul", {{"impl", "eager"}, {"dtype", "bf16"}, {"elements", "16777216"}}),
                    CaseAt("rope", {{"impl", "native"}, {"dtype", "bf16"}, {"tokens", "8192"}}),
                    CaseAt("read", {{"impl", "eager"}, {"bytes", "134217728"}})),
    TestNameOf);
#endif

}  // namespace
}  // namespace roofbench
