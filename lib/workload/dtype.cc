// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/dtype.h"

namespace roofbench::workload {
namespace {

struct DtypeRow {
  std::string_view name;
  double bytes;
  double epsilon;
};

// In the order of the enumeration. Epsilon = 2^-(stored mantissa bits).
constexpr std::array<DtypeRow, kDtypeCount> kRows = {{
    {"fp32", 4, 0x1p-23},
    {"tf32", 4, 0x1p-10},
    {"bf16", 2, 0x1p-7},
    {"fp16", 2, 0x1p-10},
    {"int8", 1, 0},
    {"fp8", 1, 0x1p-3},
}};

}  // namespace

std::string_view Name(Dtype dtype) { return kRows[Index(dtype)].name; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (const Dtype dtype : kDtypes) {
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

double ElementBytes(Dtype dtype) { return kRows[Index(dtype)].bytes; }

double Epsilon(Dtype dtype) { return kRows[Index(dtype)].epsilon; }

}  // namespace roofbench::workload
