// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/weight_format.h"

#include <cstddef>

namespace roofbench::workload {
namespace {

struct FormatRow {
  std::string_view name;
  double weight_bytes;
  double row_bytes;    // scales a row
  double group_bytes;  // scale and zero a group
  Dtype activation;
  Dtype product;
  WeightFormat unquantised;
  bool head;
};

// In the order of the enumeration: what each linear of a model becomes.
constexpr std::array<FormatRow, kWeightFormats.size()> kRows = {{
    {"fp32", 4, 0, 0, Dtype::kFp32, Dtype::kFp32, WeightFormat::kFp32, true},
    {"bf16", 2, 0, 0, Dtype::kBf16, Dtype::kBf16, WeightFormat::kBf16, true},
    {"fp16", 2, 0, 0, Dtype::kFp16, Dtype::kFp16, WeightFormat::kFp16, true},
    {"int8", 1, 4, 0, Dtype::kBf16, Dtype::kBf16, WeightFormat::kBf16, true},
    {"int4", 0.5, 0, 4, Dtype::kBf16, Dtype::kBf16, WeightFormat::kBf16, true},
    {"llm_int8", 1, 4, 0, Dtype::kBf16, Dtype::kInt8, WeightFormat::kBf16, false},
}};

const FormatRow& Row(WeightFormat format) { return kRows[static_cast<std::size_t>(format)]; }

}  // namespace

std::string_view Name(WeightFormat format) { return Row(format).name; }

std::optional<WeightFormat> ParseWeightFormat(std::string_view name) {
  for (const WeightFormat format : kWeightFormats) {
    if (Name(format) == name) return format;
  }
  return std::nullopt;
}

Dtype ActivationDtype(WeightFormat format) { return Row(format).activation; }

bool TakesInt8Activations(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
}

Dtype ProductDtype(WeightFormat format, bool int8_activations) {
  return int8_activations && TakesInt8Activations(format) ? Dtype::kInt8 : Row(format).product;
}

WeightFormat UnquantisedFormat(WeightFormat format) { return Row(format).unquantised; }

bool QuantisesHead(WeightFormat format) { return Row(format).head; }

double MatrixBytes(WeightFormat format, double rows, double columns, double group) {
  const FormatRow& row = Row(format);
  const double groups = row.group_bytes > 0 ? rows * columns / group : 0;
  return rows * columns * row.weight_bytes + rows * row.row_bytes + groups * row.group_bytes;
}

}  // namespace roofbench::workload
