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

// IEEE half precision: a sign, 5 bits of exponent, 10 of mantissa.

// Storage only: arithmetic happens in fp32. Layout-compatible with at::Half.
struct Fp16 {
  uint16_t bits;
  friend bool operator==(Fp16, Fp16) = default;
};
static_assert(sizeof(Fp16) == 2);

constexpr float ToFloat(Fp16 value) {
  constexpr int kMantissaShift = 23 - 10;
  constexpr uint32_t kInfinity = 31U << 23;         // the largest exponent of fp16, where fp32 has its own
  constexpr uint32_t kRebias = (127U - 15U) << 23;  // from the bias of fp16 to that of fp32
  constexpr float kLeastNormal = 6.103515625e-05F;  // 2^-14
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffU) << kMantissaShift;
  const uint32_t exponent = magnitude & kInfinity;
  uint32_t bits = magnitude + kRebias;
  if (exponent == kInfinity) bits += kRebias;
  // A subnormal number: its excess over the least normal one, with the hidden bit set.
  if (exponent == 0) bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1U << 23)) - kLeastNormal);
  return std::bit_cast<float>(bits | sign);
}

}  // namespace roofbench::kernels
