// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/unpack_int4.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/kernels/operators/products/quantize.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

template <typename T>
class UnpackInt4Test : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(UnpackInt4Test, Types);

TYPED_TEST(UnpackInt4Test, GivesWhatDequantizeGivesOnEveryIsa) {
  using T = TypeParam;
  constexpr int64_t kRows = 48;
  for (const int64_t group : {32, 64, 128, 256}) {
    const int64_t k = 3 * group;
    const auto weights = Normal<float>(kRows * k);
    std::vector<uint8_t> quantized(weights.size());
    std::vector<Bf16> scales(static_cast<std::size_t>(kRows * k / group * 2));
    QuantizeInt4(weights.data(), k, group, quantized.data(), scales.data(), {0, kRows});
    std::vector<std::byte> packed(static_cast<std::size_t>(Int4Bytes(kRows, k, group)));
    PackInt4(quantized.data(), scales.data(), kRows, k, group, packed.data(), {0, Int4Tiles(kRows)});
    const Int4Weight weight{packed.data(), kRows, k, group};
    OnEveryIsa([&] {
      // Two of the three tiles; what lies behind them stays as it is.
      constexpr int64_t kUnpacked = 2 * kInt4TileRows;
      std::vector<T> rows(static_cast<std::size_t>(kUnpacked * k + 1), Rounded<T>(7));
      UnpackInt4(weight, {1, 3}, rows.data());
      for (int64_t row = 0; row < kUnpacked; ++row) {
        for (int64_t j = 0; j < k; ++j) {
          ExpectClose(rows[static_cast<std::size_t>(row * k + j)], Dequantize(weight, kInt4TileRows + row, j),
                      kRounding<T>, 1e-5, "weight");
        }
      }
      EXPECT_EQ(ToFloat(rows.back()), 7);
    });
  }
}

}  // namespace
}  // namespace roofbench::kernels
