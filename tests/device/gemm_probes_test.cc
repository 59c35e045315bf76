// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gemm_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/device/cpu_device.h"

namespace roofbench {
namespace {

using workload::Dtype;

std::vector<std::string> NamesOf(const std::vector<std::pair<std::string, hardware::ComputeProbe>>& probes) {
  std::vector<std::string> names;
  for (const auto& [name, probe] : probes) names.push_back(name);
  return names;
}

TEST(GemmProbes, EachHasARate) {
  const CpuDevice device(1);
  for (const Dtype dtype : workload::kDtypes) {
    if (!device.Supports(dtype).ok()) continue;
    for (const auto& [name, probe] : CpuGemmProbes(dtype)) EXPECT_GT(probe(1e-3), 0) << Name(dtype) << " " << name;
  }
}

// LibTorch multiplies fp8 in fp32 on most processors: without that product, large cases would exceed their roof.
TEST(GemmProbes, OfFp8AreLibTorchsProductAndThoseOfFp32) {
  EXPECT_TRUE(CpuDevice(1).Supports(Dtype::kFp8).ok());
  EXPECT_THAT(NamesOf(CpuGemmProbes(Dtype::kFp8)),
              testing::UnorderedElementsAre("gemm mm", "gemm onednn", "gemm _scaled_mm"));
}

TEST(GemmProbes, OfGpusIncludeTheProductOfLinearLayers) {
  const auto names = [](Dtype dtype) { return NamesOf(GpuGemmProbes(dtype, at::kCPU, nullptr, nullptr)); };
  EXPECT_THAT(names(Dtype::kBf16), testing::ElementsAre("gemm 4096", "gemm 8192", "gemm 8192 transposed"));
  for (const Dtype slow : {Dtype::kFp32, Dtype::kFp64}) {
    EXPECT_THAT(names(slow), testing::ElementsAre("gemm 4096", "gemm 4096 transposed"));
  }
  EXPECT_THAT(names(Dtype::kInt8), testing::ElementsAre("gemm 4096", "gemm 8192")) << "transposed as they are";
}

}  // namespace
}  // namespace roofbench
