// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;

// The layout of each loop. From it the tests compute the loop's result, one element at a time; a wrong count of
// operations shows as a wrong sum.
struct Layout {
  std::string_view name;
  int sums;
  int pairs;
  int lanes;     // elements of a sum vector
  int products;  // that one lane adds at once
};

constexpr Layout kLayouts[] = {
    {"multiply-add baseline", 12, 2, 4, 1}, {"fma avx2", 12, 2, 8, 1},      {"fma avx512", 24, 4, 16, 1},
    {"vdpbf16ps avx512", 24, 4, 16, 2},     {"vpdpbusd avx2", 12, 2, 8, 4}, {"vpdpbusd avx512", 16, 4, 16, 4},
};

// The operands of the loops: fp32 of magnitude 0.5 to 0.9.
class Operands {
 public:
  explicit Operands(Dtype dtype) {
    constexpr int kOperandBytes = 4 * 64;
    constexpr int kSumBytes = 24 * 64;
    const int bytes = dtype == Dtype::kFp32 ? 4 : dtype == Dtype::kBf16 ? 2 : 1;
    for (std::vector<double>* operand : {&x, &y}) {
      for (int i = 0; i < kOperandBytes / bytes; ++i) {
        const uint64_t bits = random_();
        if (dtype == Dtype::kInt8) {
          // The first factor is unsigned, the second signed.
          operand->push_back(operand == &x ? static_cast<double>(static_cast<uint8_t>(bits))
                                           : static_cast<double>(static_cast<int8_t>(bits)));
        } else {
          const float value = Float(bits);
          const uint32_t kept = std::bit_cast<uint32_t>(value) & (dtype == Dtype::kBf16 ? 0xffff0000 : 0xffffffff);
          operand->push_back(std::bit_cast<float>(kept));
        }
      }
    }
    for (int i = 0; i < kSumBytes / 4; ++i) {
      const float value = Float(random_());
      sums.push_back(dtype == Dtype::kInt8 ? static_cast<double>(std::bit_cast<int32_t>(value))
                                           : static_cast<double>(value));
    }
  }

  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> sums;

 private:
  static float Float(uint64_t bits) {
    const float magnitude = 0.5F + 0.4F * static_cast<float>(bits >> 40) * 0x1p-24F;
    return (bits & 1) != 0 ? magnitude : -magnitude;
  }

  kernels::SplitMix64 random_;
};

double Wrapped(double value) {  // to int32
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
}

// The sum of all lanes after `iterations`, in double precision.
double Expected(const Layout& layout, Dtype dtype, int64_t iterations) {
  const Operands operands(dtype);
  double total = 0;
  for (int a = 0; a < layout.sums; ++a) {
    for (int lane = 0; lane < layout.lanes; ++lane) {
      double sum = operands.sums[static_cast<std::size_t>(a * layout.lanes + lane)];
      for (int64_t i = 0; i < iterations; ++i) {
        for (int o = 0; o < layout.pairs; ++o) {
          const int first = ((a + o) % layout.pairs * layout.lanes + lane) * layout.products;
          if (dtype == Dtype::kFp32) {
            sum = sum * operands.x[static_cast<std::size_t>(first)] + operands.y[static_cast<std::size_t>(first)];
            continue;
          }
          for (int p = first; p < first + layout.products; ++p) {
            sum += operands.x[static_cast<std::size_t>(p)] * operands.y[static_cast<std::size_t>(p)];
          }
          if (dtype == Dtype::kInt8) sum = Wrapped(sum);
        }
      }
      total += sum;
    }
  }
  return total;
}

TEST(ComputeLoops, ComputeAndCountTheSame) {
  ASSERT_FALSE(ComputeLoops().empty());
  EXPECT_EQ(ComputeLoops().front().dtype, Dtype::kFp32);
  for (const ComputeLoop& loop : ComputeLoops()) {
    const auto* const layout = std::ranges::find_if(kLayouts, [&](const Layout& one) { return one.name == loop.name; });
    ASSERT_NE(layout, std::end(kLayouts)) << loop.name;
    EXPECT_EQ(loop.flops_per_iteration, 2.0 * layout->sums * layout->pairs * layout->lanes * layout->products)
        << loop.name;
    for (const int64_t iterations : {0, 1, 2, 5, 100}) {
      const double expected = Expected(*layout, loop.dtype, iterations);
      // fp32 keeps 24 bits; a sum of up to 400 values of about 10, and of 100 steps each for bf16, loses a few of them.
      const double tolerance = loop.dtype == Dtype::kInt8 ? 0 : 1e-5 * layout->sums * layout->lanes * 10;
      EXPECT_NEAR(loop.run(iterations), expected, tolerance) << loop.name << ", " << iterations << " iterations";
    }
  }
}

TEST(ComputeLoops, StayFiniteForLong) {
  for (const ComputeLoop& loop : ComputeLoops()) {
    const double result = loop.run(1'000'000);
    EXPECT_TRUE(std::isfinite(result)) << loop.name;
    EXPECT_NE(result, loop.run(0)) << loop.name;
    EXPECT_EQ(result, loop.run(1'000'000)) << loop.name;
  }
}

}  // namespace
}  // namespace roofbench::hardware
