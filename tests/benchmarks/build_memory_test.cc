// SPDX-License-Identifier: Apache-2.0
// Making and checking a case takes no more memory than its formula states, or admission lets in what does not fit.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lib/device/cpu_device.h"
#include "lib/observe/peak_memory.h"
#include "tests/benchmarks/every_case.h"

namespace roofbench {
namespace {

class BuildMemory : public testing::TestWithParam<PlannedCase> {};

TEST_P(BuildMemory, IsWithinThePrediction) {
  const PlannedCase& planned = GetParam();
  CpuDevice device(1);
  if (const absl::Status supported = planned.family->SupportOf(planned.point, device); !supported.ok()) {
    GTEST_SKIP() << supported;
  }
  const at::NoGradGuard no_grad;
  const observe::PeakMemory memory;
  Case built;
  BuildRight(planned, device, /*seed=*/1, built);
  // Blocks of a million elements, in fp32 and in double precision.
  constexpr double kBlocks = 32e6;
  const double predicted = planned.family->CostOf(planned.point).resident_bytes;
  EXPECT_LE(memory.PeakBytes(), 1.1 * predicted + kBlocks);
  EXPECT_GT(predicted, kBlocks) << "too small a case to tell";
}

INSTANTIATE_TEST_SUITE_P(
    Products, BuildMemory,
    testing::Values(CaseAt("gather_gemv", {{"impl", "eager"}, {"precision", "bf16"}, {"n", "1536"}}),
                    CaseAt("gather_gemv", {{"impl", "onednn"}, {"precision", "bf16"}, {"n", "1536"}}),
                    CaseAt("gather_gemv", {{"impl", "native"}, {"precision", "int8"}, {"n", "2048"}}),
                    CaseAt("gemv", {{"impl", "eager"}, {"precision", "fp32"}, {"n", "3072"}}),
                    CaseAt("gemv", {{"impl", "native"}, {"precision", "int4"}, {"n", "10240"}}),
                    CaseAt("gemv", {{"impl", "eager"}, {"precision", "int4"}, {"n", "10240"}}),
                    CaseAt("matmul", {{"impl", "eager"}, {"dtype", "bf16"}, {"m", "16"}, {"n", "4352"}, {"k", "4352"}}),
                    CaseAt("softmax", {{"impl", "eager"}, {"dtype", "bf16"}, {"d", "4096"}}),
                    CaseAt("embedding", {{"impl", "eager"}, {"dtype", "bf16"}, {"d", "768"}})),
    TestNameOf);

}  // namespace
}  // namespace roofbench
