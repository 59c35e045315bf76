// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/datasheet.h"

#include <algorithm>
#include <vector>

namespace roofbench::hardware {
namespace {

using workload::Dtype;
using workload::Index;

// A row in the units of datasheets. 0: not published.
struct Row {
  std::string_view name;
  std::string_view prefix;
  std::string_view title;
  std::string_view device_name;
  double bf16_tflops;  // dense, with fp32 accumulation; fp16 runs at the same rate on all of these
  double tf32_tflops;
  double fp32_tflops;
  double int8_tops;
  double fp8_tflops;
  double memory_tbs;
  std::string_view source;
};

// Dense rates: the vendors' headline figures "with sparsity" are twice these.
constexpr Row kRows[] = {
    {"a100-sxm4-40gb", "a100", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB",  //
     312, 156, 19.5, 624, 0, 1.555, "NVIDIA A100 Tensor Core GPU datasheet"},
    {"a100-sxm4-80gb", "a100_80gb", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB",  //
     312, 156, 19.5, 624, 0, 2.039, "NVIDIA A100 Tensor Core GPU datasheet"},
    {"h100-sxm", "h100", "NVIDIA H100 SXM", "NVIDIA H100 80GB HBM3",  //
     989, 494.5, 67, 1979, 1979, 3.35, "NVIDIA H100 Tensor Core GPU datasheet"},
    {"h200", "h200", "NVIDIA H200", "NVIDIA H200",  //
     989, 494.5, 67, 1979, 1979, 4.8, "NVIDIA H200 Tensor Core GPU datasheet"},
    {"b200", "b200", "NVIDIA B200", "NVIDIA B200",  //
     2250, 1125, 80, 4500, 4500, 8.0, "NVIDIA DGX B200 datasheet"},
    {"l4", "l4", "NVIDIA L4", "NVIDIA L4",  //
     121, 60, 30.3, 242, 242, 0.300, "NVIDIA L4 Tensor Core GPU datasheet"},
    {"rtx4090", "rtx4090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090",  //
     165.2, 82.6, 82.6, 660.6, 330.3, 1.008, "NVIDIA Ada GPU Architecture whitepaper, appendix A"},
    {"rtx4060", "rtx4060", "NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 4060",  //
     30.2, 0, 15.1, 0, 0, 0.272, "NVIDIA GeForce RTX 4060 specifications"},
};

Datasheet FromRow(const Row& row) {
  constexpr double kTera = 1e12;
  std::array<double, workload::kDtypeCount> flops{};
  flops[Index(Dtype::kFp32)] = row.fp32_tflops * kTera;
  flops[Index(Dtype::kTf32)] = row.tf32_tflops * kTera;
  flops[Index(Dtype::kBf16)] = row.bf16_tflops * kTera;
  flops[Index(Dtype::kFp16)] = row.bf16_tflops * kTera;
  flops[Index(Dtype::kInt8)] = row.int8_tops * kTera;
  flops[Index(Dtype::kFp8)] = row.fp8_tflops * kTera;
  return {.name = row.name,
          .prefix = row.prefix,
          .title = row.title,
          .device_name = row.device_name,
          .peaks = workload::UniformPeaks(flops, row.memory_tbs * kTera),
          .source = row.source};
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualIgnoringCase(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, Lower, Lower); }

const Datasheet* Find(std::string_view Datasheet::*field, std::string_view value) {
  const auto sheets = Datasheets();
  const auto found =
      std::ranges::find_if(sheets, [&](const Datasheet& sheet) { return EqualIgnoringCase(sheet.*field, value); });
  return found == sheets.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Datasheet> Datasheets() {
  static const std::vector<Datasheet> sheets = [] {
    std::vector<Datasheet> made;
    for (const Row& row : kRows) made.push_back(FromRow(row));
    return made;
  }();
  return sheets;
}

const Datasheet* FindDatasheet(std::string_view name) { return Find(&Datasheet::name, name); }

const Datasheet* RecognizeDevice(std::string_view driver_name) { return Find(&Datasheet::device_name, driver_name); }

}  // namespace roofbench::hardware
