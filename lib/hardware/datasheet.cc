// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/datasheet.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace roofbench::hardware {
namespace {

// Rates in tera: of bf16 with fp32 accumulation (fp16 runs at the same rate on all of these), tf32, fp32, int8, fp8,
// memory, and fp64 by tensor cores, as datasheets list them. 0: not published.
constexpr workload::Peaks Tera(double bf16, double tf32, double fp32, double int8, double fp8, double memory,
                               double fp64 = 0) {
  std::array<double, workload::kDtypeCount> flops = {fp32, tf32, bf16, bf16,
                                                     int8, fp8,  fp64};  // in the order of kDtypes
  for (double& rate : flops) rate *= 1e12;
  return workload::UniformPeaks(flops, memory * 1e12);
}

// Dense rates: the vendors' headline figures "with sparsity" are twice these.
constexpr Datasheet kSheets[] = {
    {"a100-sxm4-40gb", "a100", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB",
     Tera(312, 156, 19.5, 624, 0, 1.555, 19.5), "NVIDIA A100 Tensor Core GPU datasheet"},
    {"a100-sxm4-80gb", "a100_80gb", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB",
     Tera(312, 156, 19.5, 624, 0, 2.039, 19.5), "NVIDIA A100 Tensor Core GPU datasheet"},
    {"a100-pcie-40gb", "a100_pcie", "NVIDIA A100 PCIe 40 GB", "NVIDIA A100-PCIE-40GB",
     Tera(312, 156, 19.5, 624, 0, 1.555, 19.5), "NVIDIA A100 Tensor Core GPU datasheet"},
    {"a100-pcie-80gb", "a100_pcie_80gb", "NVIDIA A100 PCIe 80 GB", "NVIDIA A100 80GB PCIe",
     Tera(312, 156, 19.5, 624, 0, 1.935, 19.5), "NVIDIA A100 Tensor Core GPU datasheet"},
    {"h100-sxm", "h100", "NVIDIA H100 SXM", "NVIDIA H100 80GB HBM3", Tera(989, 494.5, 67, 1979, 1979, 3.35, 67),
     "NVIDIA H100 Tensor Core GPU datasheet"},
    {"h100-pcie", "h100_pcie", "NVIDIA H100 PCIe", "NVIDIA H100 PCIe", Tera(756, 378, 51, 1513, 1513, 2.0, 51),
     "NVIDIA H100 Tensor Core GPU datasheet"},
    {"h100-nvl", "h100_nvl", "NVIDIA H100 NVL", "NVIDIA H100 NVL", Tera(835.5, 417.5, 60, 1670.5, 1670.5, 3.9, 60),
     "NVIDIA H100 NVL GPU datasheet"},
    {"gh200", "gh200", "NVIDIA GH200, 96 GB HBM3", "NVIDIA GH200 480GB", Tera(989, 494.5, 67, 1979, 1979, 4.0, 67),
     "NVIDIA GH200 Grace Hopper Superchip datasheet"},
    {"h200", "h200", "NVIDIA H200", "NVIDIA H200", Tera(989, 494.5, 67, 1979, 1979, 4.8, 67),
     "NVIDIA H200 Tensor Core GPU datasheet"},
    {"h200-nvl", "h200_nvl", "NVIDIA H200 NVL", "NVIDIA H200 NVL", Tera(835.5, 417.5, 60, 1670.5, 1670.5, 4.8, 60),
     "NVIDIA H200 Tensor Core GPU datasheet"},
    {"b200", "b200", "NVIDIA B200", "NVIDIA B200", Tera(2250, 1125, 80, 4500, 4500, 8.0), "NVIDIA DGX B200 datasheet"},
    {"l4", "l4", "NVIDIA L4", "NVIDIA L4", Tera(121, 60, 30.3, 242, 242, 0.300), "NVIDIA L4 Tensor Core GPU datasheet"},
    {"l40s", "l40s", "NVIDIA L40S", "NVIDIA L40S", Tera(362.05, 183, 91.6, 733, 733, 0.864), "NVIDIA L40S datasheet"},
    {"rtx4090", "rtx4090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090",
     Tera(165.2, 82.6, 82.6, 660.6, 330.3, 1.008), "NVIDIA Ada GPU Architecture whitepaper, appendix A"},
    {"rtx4060", "rtx4060", "NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 4060", Tera(30.2, 0, 15.1, 0, 0, 0.272),
     "NVIDIA GeForce RTX 4060 specifications"},
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualIgnoringCase(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, Lower, Lower); }

const Datasheet* Find(std::string_view Datasheet::*field, std::string_view value) {
  const auto* const found =
      std::ranges::find_if(kSheets, [&](const Datasheet& sheet) { return EqualIgnoringCase(sheet.*field, value); });
  return found == std::end(kSheets) ? nullptr : found;
}

}  // namespace

std::span<const Datasheet> Datasheets() { return kSheets; }

const Datasheet* FindDatasheet(std::string_view name) { return Find(&Datasheet::name, name); }

const Datasheet* RecognizeDevice(std::string_view driver_name) { return Find(&Datasheet::device_name, driver_name); }

}  // namespace roofbench::hardware
