// SPDX-License-Identifier: Apache-2.0
// The number formats that a case can compute in, and the size of one element.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace roofbench::workload {

// An arithmetic precision. It names the multiplier in use (and so the peak that a case is compared with), which for
// tf32 differs from the storage: tf32 operands are stored as fp32.
enum class Dtype { kFp32, kTf32, kBf16, kFp16, kInt8, kFp8, kFp64 };

inline constexpr std::array<Dtype, 7> kDtypes = {Dtype::kFp32, Dtype::kTf32, Dtype::kBf16, Dtype::kFp16,
                                                 Dtype::kInt8, Dtype::kFp8,  Dtype::kFp64};
inline constexpr std::size_t kDtypeCount = kDtypes.size();

constexpr std::size_t Index(Dtype dtype) { return static_cast<std::size_t>(dtype); }

struct DtypeFacts {
  std::string_view name;  // as the axis `dtype` spells it
  double bytes;           // of one stored element
  double epsilon;         // from 1 to the next number of the multiplier's inputs; 0 for integers, which are exact
};

// In the order of the enumeration. Epsilon = 2^-(stored mantissa bits).
inline constexpr std::array<DtypeFacts, kDtypeCount> kDtypeFacts = {{
    {"fp32", 4, 0x1p-23},
    {"tf32", 4, 0x1p-10},
    {"bf16", 2, 0x1p-7},
    {"fp16", 2, 0x1p-10},
    {"int8", 1, 0},
    {"fp8", 1, 0x1p-3},
    {"fp64", 8, 0x1p-52},
}};

constexpr std::string_view Name(Dtype dtype) { return kDtypeFacts[Index(dtype)].name; }
constexpr double ElementBytes(Dtype dtype) { return kDtypeFacts[Index(dtype)].bytes; }
constexpr double Epsilon(Dtype dtype) { return kDtypeFacts[Index(dtype)].epsilon; }

// The inverse of Name; nullopt for any other text.
constexpr std::optional<Dtype> ParseDtype(std::string_view name) {
  for (const Dtype dtype : kDtypes) {
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace roofbench::workload
