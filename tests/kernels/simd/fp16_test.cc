// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace roofbench::kernels {
namespace {

TEST(Fp16, EveryValue) {
  for (uint32_t bits = 0; bits < 0x8000U; ++bits) {
    const uint32_t exponent = bits >> 10;
    const auto mantissa = static_cast<float>(bits & 0x3ffU);
    const float value = ToFloat(Fp16{static_cast<uint16_t>(bits)});
    const float negative = ToFloat(Fp16{static_cast<uint16_t>(bits | 0x8000U)});
    ASSERT_TRUE(std::signbit(negative)) << bits;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    const float expected = exponent == 31  ? std::numeric_limits<float>::infinity()
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(negative, -expected) << bits;
  }
}

}  // namespace
}  // namespace roofbench::kernels
