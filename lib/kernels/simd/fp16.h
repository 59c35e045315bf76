// SPDX-License-Identifier: Apache-2.0
// IEEE half precision: a sign, 5 bits of exponent, 10 of mantissa.
#pragma once

#include <bit>
#include <cstdint>

namespace roofbench::kernels {

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
  // A subnormal number: what it exceeds the least normal one by, were its hidden bit there.
  if (exponent == 0) bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1U << 23)) - kLeastNormal);
  return std::bit_cast<float>(bits | sign);
}

}  // namespace roofbench::kernels
