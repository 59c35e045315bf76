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
enum class Dtype { kFp32, kTf32, kBf16, kFp16, kInt8, kFp8 };

inline constexpr std::array<Dtype, 6> kDtypes = {Dtype::kFp32, Dtype::kTf32, Dtype::kBf16,
                                                 Dtype::kFp16, Dtype::kInt8, Dtype::kFp8};
inline constexpr std::size_t kDtypeCount = kDtypes.size();

constexpr std::size_t Index(Dtype dtype) { return static_cast<std::size_t>(dtype); }

// "fp32", "tf32", "bf16", "fp16", "int8", "fp8": as the axis `dtype` spells them.
std::string_view Name(Dtype dtype);

// The inverse of Name; nullopt for any other text.
std::optional<Dtype> ParseDtype(std::string_view name);

// Bytes of one stored element.
double ElementBytes(Dtype dtype);

// Distance from 1 to the next representable number of the multiplier's inputs (0 for integers, which are exact).
double Epsilon(Dtype dtype);

}  // namespace roofbench::workload
