// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/weight_format.h"

#include <cmath>
#include <cstddef>

namespace roofbench::workload {
namespace {

struct FormatRow {
  std::string_view name;
  double weight_bytes;
  double row_bytes;    // scales, per row
  double group_bytes;  // scale and zero, per group
  Dtype activation;
  WeightFormat unquantized;
  bool head;
};

// In the order of the enumeration: the storage of each linear of a model.
constexpr std::array<FormatRow, kWeightFormats.size()> kRows = {{
    {"fp32", 4, 0, 0, Dtype::kFp32, WeightFormat::kFp32, true},
    {"bf16", 2, 0, 0, Dtype::kBf16, WeightFormat::kBf16, true},
    {"fp16", 2, 0, 0, Dtype::kFp16, WeightFormat::kFp16, true},
    {"int8", 1, 4, 0, Dtype::kBf16, WeightFormat::kBf16, true},
    {"int4", 0.5, 0, 4, Dtype::kBf16, WeightFormat::kBf16, true},
    {"llm_int8", 1, 4, 0, Dtype::kBf16, WeightFormat::kBf16, false},
    {"fp8", 1, 4, 0, Dtype::kBf16, WeightFormat::kBf16, true},
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

bool TakesActivations(WeightFormat format, Activations activations) {
  if (activations == Activations::kFp16) return Row(format).unquantized != format;
  if (activations == Activations::kInt8) return format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
  return true;
}

WeightFormat UnquantizedFormat(WeightFormat format, Activations activations) {
  const bool is_fp16 = activations == Activations::kFp16 && TakesActivations(format, activations);
  return is_fp16 ? WeightFormat::kFp16 : Row(format).unquantized;
}

Dtype ActivationDtype(WeightFormat format, Activations activations) {
  return Row(UnquantizedFormat(format, activations)).activation;
}

Dtype ProductDtype(WeightFormat format, Activations activations) {
  const bool rounds = activations == Activations::kInt8 && TakesActivations(format, activations);
  return rounds || format == WeightFormat::kLlmInt8 ? Dtype::kInt8 : ActivationDtype(format, activations);
}

bool QuantizesHead(WeightFormat format) { return Row(format).head; }

double MatrixBytes(WeightFormat format, double rows, double columns, double group) {
  constexpr double kTileRows = 16;
  const FormatRow& row = Row(format);
  const bool has_groups = row.group_bytes > 0;
  const double stored = has_groups ? std::ceil(rows / kTileRows) * kTileRows : rows;
  const double groups = has_groups ? stored * columns / group : 0;
  return stored * columns * row.weight_bytes + stored * row.row_bytes + groups * row.group_bytes;
}

}  // namespace roofbench::workload
