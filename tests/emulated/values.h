// SPDX-License-Identifier: Apache-2.0
// Values of operands, and how close a result must be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lib/kernels/simd/floats.h"
#include "tests/emulated/operand.h"

namespace roofbench::emulated {

using kernels::Bf16;
inline double Value(auto value) { return kernels::ToFloat(value); }

template <typename T>
inline constexpr double kRounding = 0x1p-8;  // half the distance to the next number, relative
template <>
inline constexpr double kRounding<float> = 0x1p-24;

// NaN: a result that was never written.
template <typename T>
Operand<T> Nothing(int64_t count) {
  Operand<T> values(static_cast<std::size_t>(count));
  std::ranges::fill(values, kernels::Rounded<T>(NAN));
  return values;
}

template <typename T>
Operand<T> Normal(int64_t count, double mean, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, 1);
  Operand<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = kernels::Rounded<T>(static_cast<float>(normal(random)));
  return values;
}

template <typename T>
Operand<T> Uniform(int64_t count, int least, int most, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> uniform(least, most);
  Operand<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(uniform(random));
  return values;
}

// `fp32` is the error that sums in fp32 may add, relative to the largest result.
template <typename T>
void ExpectNear(const Operand<T>& actual, const std::vector<double>& exact, double fp32, const std::string& what) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double allowed = 1.01 * kRounding<T> * std::abs(exact[i]) + fp32 * largest;
    // Not ASSERT_LE, which NaN would fail as well, but with a less clear message.
    ASSERT_TRUE(std::abs(Value(actual[i]) - exact[i]) <= allowed)
        << what << " element " << i << ": " << Value(actual[i]) << ", exact " << exact[i];
  }
}

}  // namespace roofbench::emulated
