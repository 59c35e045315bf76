// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of kernels: data, float64 comparison, and every instruction set of this machine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/isa.h"
#include "tests/kernels/simd/trapped_tiles.h"

namespace roofbench::kernels {

// The first failure of an ASSERT ends its test, in functions and loops too.
class ThrowingListener : public testing::EmptyTestEventListener, public testing::Environment {
 public:
  void SetUp() override { testing::UnitTest::GetInstance()->listeners().Append(new ThrowingListener); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.fatally_failed()) throw testing::AssertionException(result);
  }
};
inline testing::Environment* const kThrows = testing::AddGlobalTestEnvironment(new ThrowingListener);

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using FloatTypes = testing::Types<float, Bf16>;

inline std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

template <typename T>
T FromDouble(double value);
template <>
inline float FromDouble<float>(double value) {
  return static_cast<float>(value);
}
template <>
inline Bf16 FromDouble<Bf16>(double value) {
  return ToBf16(static_cast<float>(value));
}

template <>
inline Fp16 FromDouble<Fp16>(double value) {
  constexpr int kLeastExponent = -14;
  const double magnitude = std::abs(value);
  int exponent = 0;
  const double mantissa = std::frexp(magnitude, &exponent) * 2;  // from 1 on
  const double bits = --exponent < kLeastExponent ? std::nearbyint(std::ldexp(magnitude, 10 - kLeastExponent))
                                                  : std::nearbyint((exponent - kLeastExponent + mantissa) * 1024);
  return {static_cast<uint16_t>(static_cast<uint16_t>(bits) | (value < 0 ? 0x8000U : 0U))};
}

// Half the distance to the next number, relative.
template <typename T>
constexpr double kRounding = 0x1p-24;
template <>
inline constexpr double kRounding<Bf16> = 0x1p-8;

// The error allowed for exponentials and quotients in a result of type T, in addition to its rounding.
template <typename T>
constexpr double kApproximation = 0x1p-20;
template <>
inline constexpr double kApproximation<Bf16> = 0x1p-11;

template <typename T>
std::vector<T> Normal(int64_t n, double mean = 0, double deviation = 1, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<T> values(Size(n));
  for (T& value : values) value = FromDouble<T>(normal(random));
  return values;
}

enum class Class { kFinite, kNotANumber, kPositiveInfinity, kNegativeInfinity };
inline Class ClassOf(double value) {
  if (std::isnan(value)) return Class::kNotANumber;
  if (std::isinf(value)) return value > 0 ? Class::kPositiveInfinity : Class::kNegativeInfinity;
  return Class::kFinite;
}

// Matches values of the same class, and finite ones within `tolerance` · (|expected| + scale). where() is called for a
// failure only: millions of texts take longer than the comparisons.
template <typename T, std::invocable Where>
void ExpectClose(T actual, double expected, double tolerance, double scale, const Where& where) {
  const double value = ToFloat(actual);
  const double most = tolerance * (std::abs(expected) + scale);
  if (std::isfinite(expected) && std::abs(value - expected) <= most) return;
  ASSERT_EQ(ClassOf(value), ClassOf(expected)) << where() << ": " << value << " instead of " << expected;
  if (ClassOf(expected) != Class::kFinite) return;
  ASSERT_NEAR(value, expected, most) << where();
}

template <typename T>
void ExpectClose(T actual, double expected, double tolerance, double scale, const std::string& where) {
  ExpectClose(actual, expected, tolerance, scale, [&] { return where; });
}

// The instruction sets that IsaHas currently reports.
inline uint32_t FeaturesNow() {
  uint32_t features = 0;
  for (uint32_t feature = 1; feature != 0; feature <<= 1) {
    if (IsaHas(feature)) features |= feature;
  }
  return features;
}

// Checking each access is slow.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Random problems that show wrong values; where the accesses go, a part of them shows.
constexpr uint32_t Trials(uint32_t plain) { return kSanitized ? (plain + 3) / 4 : plain; }

// Calls body() once for each variant of a kernel that this processor can run: every row of its table, and Highway's
// code for every target (under AddressSanitizer: for the widest and the narrowest). Levels that come to the same here
// are run once.
inline void OnEveryIsa(const std::function<void()>& body) {
  std::set<uint32_t> run;
  for (const IsaLevel& level : kIsaLevels) {  // with Highway's best target
    const LimitIsa limit(level.features);
    if (!run.insert(FeaturesNow()).second) continue;
    SCOPED_TRACE(testing::Message() << level.name);
    body();
  }
  const std::vector<HighwayTarget> targets = HighwayTargets();
  // A target's accesses follow from its width.
  const std::size_t first = !kSanitized || targets.empty() ? 1 : std::max<std::size_t>(1, targets.size() - 1);
  for (std::size_t narrower = first; narrower < targets.size(); ++narrower) {
    const LimitIsa limit(kIsaLevels[0].features, targets[narrower].bit);
    SCOPED_TRACE(testing::Message() << kIsaLevels[0].name << ", Highway's " << targets[narrower].name);
    body();
  }
}

// Calls body() as OnEveryIsa does, but once under AddressSanitizer: for emulated tiles, beside which vectors only pack.
inline void OnEveryIsaBesideEmulatedTiles(const std::function<void()>& body) {
  if (kSanitized) return body();
  OnEveryIsa(body);
}

// Calls body() as OnEveryIsa does, and where the processor has no tiles, once more with TrappedTiles: for kernels that
// choose tiles themselves.
inline void OnEveryIsaAndTiles(const std::function<void()>& body) {
  OnEveryIsa(body);
  const TrappedTiles trapped;
  if (trapped.executed() < 0) return;
  SCOPED_TRACE("trapped tiles");
  body();
  EXPECT_GT(trapped.executed(), 0) << "the kernel does not choose tiles";
}

}  // namespace roofbench::kernels
