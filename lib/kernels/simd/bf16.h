// SPDX-License-Identifier: Apache-2.0
// bfloat16: the upper half of an fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace roofbench::kernels {

// Storage only: arithmetic happens in fp32. Layout-compatible with at::BFloat16.
struct Bf16 {
  uint16_t bits;
  friend bool operator==(Bf16, Bf16) = default;
};
static_assert(sizeof(Bf16) == 2);

constexpr float ToFloat(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
constexpr float ToFloat(float value) { return value; }

// Rounds to nearest, ties to even. A NaN stays one.
constexpr Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// The nearest value of the type: float or Bf16.
template <typename T>
constexpr T Rounded(float value) {
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    return ToBf16(value);
  } else {
    return value;
  }
}

}  // namespace roofbench::kernels
