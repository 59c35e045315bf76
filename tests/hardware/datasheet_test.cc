// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/datasheet.h"

#include <gtest/gtest.h>

#include <set>

namespace roofbench::hardware {
namespace {

using workload::Dtype;

double Flops(const Datasheet& sheet, Dtype dtype) { return sheet.peaks.flops_per_second[workload::Index(dtype)]; }

TEST(Datasheets, RowsAreCompleteAndUnique) {
  std::set<std::string_view> names;
  for (const Datasheet& sheet : Datasheets()) {
    // A name may be the prefix and the device's name, too, but only in its own row.
    for (const std::string_view name : std::set{sheet.name, sheet.prefix, sheet.device_name}) {
      EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_FALSE(sheet.source.empty()) << sheet.name;
    EXPECT_FALSE(sheet.title.empty()) << sheet.name;
    EXPECT_GT(sheet.peaks.read, 1e11) << sheet.name;
    EXPECT_EQ(Flops(sheet, Dtype::kBf16), Flops(sheet, Dtype::kFp16)) << sheet.name;
    EXPECT_GT(Flops(sheet, Dtype::kFp32), 0) << sheet.name;
  }
}

// The figures that datasheets print without sparsity, or half of those with it, by the names that drivers report.
TEST(RecognizeDevice, KnowsTheVariantsOfAGeneration) {
  struct Row {
    const char* device;
    double bf16, tf32, fp32, int8, fp8, memory, fp64 = 0;  // TFLOP/s, TB/s
  };
  for (const Row& row :
       {Row{"NVIDIA A100-SXM4-40GB", 312, 156, 19.5, 624, 0, 1.555, 19.5},
        Row{"NVIDIA A100-PCIE-40GB", 312, 156, 19.5, 624, 0, 1.555, 19.5},
        Row{"NVIDIA A100 80GB PCIe", 312, 156, 19.5, 624, 0, 1.935, 19.5},
        Row{"NVIDIA H100 PCIe", 756, 378, 51, 1513, 1513, 2.0, 51},
        Row{"NVIDIA H100 NVL", 1671 / 2.0, 835 / 2.0, 60, 3341 / 2.0, 3341 / 2.0, 3.9, 60},
        Row{"NVIDIA GH200 480GB", 989, 989 / 2.0, 67, 1979, 1979, 4.0, 67},
        Row{"NVIDIA H200 NVL", 1671 / 2.0, 835 / 2.0, 60, 3341 / 2.0, 3341 / 2.0, 4.8, 60},
        Row{"NVIDIA B200", 2250, 1125, 80, 4500, 4500, 8.0}, Row{"NVIDIA L40S", 362.05, 183, 91.6, 733, 733, 0.864}}) {
    const Datasheet* sheet = RecognizeDevice(row.device);
    ASSERT_NE(sheet, nullptr) << row.device;
    // In the order of kDtypes: fp16 is as fast as bf16.
    const auto& flops = sheet->peaks.flops_per_second;
    const double tera[] = {row.fp32, row.tf32, row.bf16, row.bf16, row.int8, row.fp8, row.fp64};
    for (std::size_t i = 0; i < flops.size(); ++i) EXPECT_DOUBLE_EQ(flops[i], tera[i] * 1e12) << row.device << i;
    for (const double rate : {sheet->peaks.read, sheet->peaks.copy, sheet->peaks.update, sheet->peaks.write}) {
      EXPECT_DOUBLE_EQ(rate, row.memory * 1e12) << row.device;
    }
  }
}

TEST(FindDatasheet, UnpublishedRatesAreZeroAndOtherNamesUnknown) {
  const Datasheet* rtx = FindDatasheet("rtx4060");
  ASSERT_NE(rtx, nullptr);
  EXPECT_EQ(Flops(*rtx, Dtype::kTf32), 0);
  EXPECT_GT(Flops(*rtx, Dtype::kBf16), 0);
  for (const char* other : {"a100", "", "a100-sxm4-40gb "}) EXPECT_EQ(FindDatasheet(other), nullptr) << other;
}

TEST(RecognizeDevice, MatchesTheWholeNameInAnyCase) {
  ASSERT_NE(RecognizeDevice("NVIDIA A100-SXM4-80GB"), nullptr);
  ASSERT_NE(FindDatasheet("a100-sxm4-40gb"), nullptr);
  EXPECT_EQ(FindDatasheet("a100-sxm4-40gb")->prefix, "a100");
  EXPECT_EQ(RecognizeDevice("NVIDIA A100-SXM4-80GB")->prefix, "a100_80gb");
  EXPECT_EQ(RecognizeDevice("nvidia h100 80gb hbm3"), FindDatasheet("h100-sxm"));
}

// These have other clocks, cores or memory than the devices whose names they contain.
TEST(RecognizeDevice, GuessesNothing) {
  for (const char* other : {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 80GB HBM2e", "NVIDIA L40", "NVIDIA", "",
                            "NVIDIA GeForce RTX 4060 Laptop GPU"}) {
    EXPECT_EQ(RecognizeDevice(other), nullptr) << other;
  }
}

}  // namespace
}  // namespace roofbench::hardware
