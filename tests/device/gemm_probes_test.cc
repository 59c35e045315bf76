// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gemm_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/device/cpu_device.h"

namespace roofbench {
namespace {

using workload::Dtype;

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
  std::vector<std::string> names;
  for (const auto& [name, probe] : CpuGemmProbes(Dtype::kFp8)) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("gemm mm", "gemm onednn", "gemm _scaled_mm"));
}

}  // namespace
}  // namespace roofbench
