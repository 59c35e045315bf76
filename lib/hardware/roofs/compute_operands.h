// SPDX-License-Identifier: Apache-2.0
// Operands of the multiply-add loops: no zeros or constants, which draw less power and let the clock rise, and no
// values that lead to infinity or denormals, which are slow on some processors. Or zeros, to see by how much.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/split_mix.h"

namespace roofbench::hardware {

// Values of either sign with a magnitude in [0.5, 0.9): s = s * x + y stays within 9.
inline double Fp64Element(kernels::SplitMix64& random) {
  const uint64_t bits = random();
  const double magnitude = 0.5 + 0.4 * static_cast<double>(bits >> 11) * 0x1p-53;
  return (bits & 1) != 0 ? magnitude : -magnitude;
}

inline float Fp32Element(kernels::SplitMix64& random) { return static_cast<float>(Fp64Element(random)); }

// The upper half of an fp32.
inline uint16_t Bf16Element(kernels::SplitMix64& random) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(Fp32Element(random)) >> 16);
}

// The sign and the upper bits of the mantissa of an fp32; the exponent of all is that of 0.5.
inline kernels::Fp16 Fp16Element(kernels::SplitMix64& random) {
  const auto bits = std::bit_cast<uint32_t>(Fp32Element(random));
  constexpr uint32_t kHalf = 0x3800;
  return {static_cast<uint16_t>((bits >> 16 & 0x8000) | kHalf | (bits >> 13 & 0x3ff))};
}

inline uint8_t Int8Element(kernels::SplitMix64& random) { return static_cast<uint8_t>(random()); }

// The bytes of the factors of a loop, and of its sums at the start.
template <std::size_t kFactorBytes, std::size_t kSumBytes>
struct ComputeOperands {
  alignas(64) std::array<std::byte, kFactorBytes> x;
  alignas(64) std::array<std::byte, kFactorBytes> y;
  alignas(64) std::array<std::byte, kSumBytes> sums;
};

enum class Factors { kRandom, kZeros };

// Made once. `kElement` draws an element of a factor.
template <typename Operands, auto kElement>
const Operands& OperandsOf(Factors factors) {
  static const Operands made = [] {
    Operands operands;
    kernels::SplitMix64 random;
    const auto fill = [&random](std::span<std::byte> bytes, auto make) {
      for (std::size_t at = 0; at < bytes.size();) {
        const auto value = make(random);
        std::memcpy(&bytes[at], &value, sizeof(value));
        at += sizeof(value);
      }
    };
    fill(operands.x, kElement);
    fill(operands.y, kElement);
    using Element = decltype(kElement(random));
    if constexpr (std::is_same_v<Element, double> || std::is_same_v<Element, kernels::Fp16>) {
      fill(operands.sums, kElement);
    } else {
      fill(operands.sums, Fp32Element);  // as integers, the bits of a random fp32 are random too
    }
    return operands;
  }();
  static const Operands zeros = {.x = {}, .y = {}, .sums = made.sums};
  return factors == Factors::kZeros ? zeros : made;
}

template <typename Lane>
double SumOf(std::span<const std::byte> lanes) {
  double sum = 0;
  for (std::size_t at = 0; at < lanes.size(); at += sizeof(Lane)) {
    Lane lane;
    std::memcpy(&lane, &lanes[at], sizeof(lane));
    if constexpr (std::is_same_v<Lane, kernels::Fp16>) {
      sum += kernels::ToFloat(lane);
    } else {
      sum += lane;
    }
  }
  return sum;
}

}  // namespace roofbench::hardware
