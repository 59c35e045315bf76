// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/products/int4_testing.h"

namespace roofbench::kernels {
namespace {

TEST(QuantizeInt8, ByHand) {
  // Largest magnitude 2.55 makes the scale 0.02; 127.5 rounds to even and is clamped.
  const std::vector<float> weight = {2.55F, -2.55F, 0.02F, 0.03F, 0.05F, 0, 1.28F, -1.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  std::vector<int8_t> q(weight.size(), 99);
  std::vector<float> scales(3);
  QuantizeInt8(weight.data(), 4, q.data(), scales.data(), {0, 3});
  EXPECT_FLOAT_EQ(scales[0], 0.02F);
  EXPECT_THAT(std::vector<int8_t>(q.begin(), q.begin() + 3), testing::ElementsAre(127, -128, 1));
  EXPECT_FLOAT_EQ(scales[1], 1.28F / 127.5F);
  EXPECT_EQ(scales[2], 0x1p-23F);  // not 0: a row of zeros divides by it
  EXPECT_THAT(std::vector<int8_t>(q.end() - 4, q.end()), testing::Each(0));
}

TEST(QuantizeInt8, EveryWeightIsWithinHalfAStep) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 77;
  const std::vector<Bf16> weight = Normal<Bf16>(kRows * kColumns);
  std::vector<int8_t> q(weight.size());
  std::vector<float> scales(kRows);
  QuantizeInt8(weight.data(), kColumns, q.data(), scales.data(), {0, kRows});
  const Int8Weight quantized{.data = q.data(), .scales = scales.data(), .n = kRows, .k = kColumns};
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const float scale = scales[Size(i / kColumns)];
    EXPECT_NEAR(Dequantize(quantized, i / kColumns, i % kColumns), ToFloat(weight[Size(i)]), 0.5001F * scale);
  }
}

class QuantizeInt4Test : public testing::TestWithParam<int64_t> {};

TEST_P(QuantizeInt4Test, EveryWeightIsWithinAStepAndThePackedOneIsTheSame) {
  const int64_t group = GetParam();
  const int64_t k = 3 * group;
  constexpr int64_t kRows = 19;  // a tile and three rows of another
  const std::vector<float> weight = Normal<float>(kRows * k, 0.3);
  const PackedInt4 packed(weight, 1, kRows, k, group);
  EXPECT_LE(*std::ranges::max_element(packed.q), 15);
  for (int64_t i = 0; i < kRows * k; ++i) {
    const float actual = Dequantize(packed.weight, i / k, i % k);
    const float scale = ToFloat(packed.scales_zeros[Size(2 * (i / group))]);
    const float zero = ToFloat(packed.scales_zeros[Size(2 * (i / group)) + 1]);
    ASSERT_EQ(actual, static_cast<float>(packed.q[Size(i)] - 8) * scale + zero);
    // Half a step, and the shift of the ends by rounding scale and zero to bf16.
    ASSERT_NEAR(actual, weight[Size(i)], 0.6F * scale + 0x1p-8F * std::abs(zero));
  }
}

TEST_P(QuantizeInt4Test, AGroupOfEqualWeightsIsItsZero) {
  const int64_t group = GetParam();
  const PackedInt4 packed(std::vector<float>(Size(group), 3.0F), 1, 1, group, group);
  EXPECT_NEAR(Dequantize(packed.weight, 0, 0), 3.0F, 1e-5F);
}

INSTANTIATE_TEST_SUITE_P(Groups, QuantizeInt4Test, testing::Values(32, 64, 128, 256));

TEST(Int4Bytes, CountsScalesAndWholeTiles) {
  // 16 rows of 4096 weights in groups of 32: half a byte per weight, 4 bytes per group.
  EXPECT_EQ(Int4Bytes(16, 4096, 32), 16 * (4096 / 2 + 4096 / 32 * 4));
  EXPECT_EQ(Int4Bytes(17, 4096, 128), 32 * (4096 / 2 + 4096 / 128 * 4));
  EXPECT_EQ(Int4Bytes(0, 4096, 128), 0);
}

template <typename T>
class UnpackInt4Test : public testing::Test {};
TYPED_TEST_SUITE(UnpackInt4Test, FloatTypes);

TYPED_TEST(UnpackInt4Test, GivesWhatDequantizeGivesOnEveryIsa) {
  constexpr int64_t kRows = 48;
  for (const int64_t group : {32, 64, 128, 256}) {
    const int64_t k = 3 * group;
    const PackedInt4 packed(Normal<float>(kRows * k), 1, kRows, k, group);
    OnEveryIsa([&] {
      // Two of the three tiles; the memory after them stays unchanged.
      constexpr int64_t kUnpacked = 2 * kInt4TileRows;
      std::vector<TypeParam> rows(Size(kUnpacked * k + 1), Rounded<TypeParam>(7));
      UnpackInt4(packed.weight, {1, 3}, rows.data());
      for (int64_t i = 0; i < kUnpacked * k; ++i) {
        ExpectClose(rows[Size(i)], Dequantize(packed.weight, kInt4TileRows + i / k, i % k), kRounding<TypeParam>, 1e-5,
                    "weight " + std::to_string(i));
      }
      EXPECT_EQ(ToFloat(rows.back()), 7);
    });
  }
}

}  // namespace
}  // namespace roofbench::kernels
