// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/stored_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/products/int4_testing.h"

namespace roofbench::kernels {
namespace {

// x · wᵀ of a weight that is converted a slab at a time, against its weights in double.
template <typename Weight>
void ExpectProduct(const TileLinearKernels& kernels, const Weight& weight, const StoredRows& stored, int64_t m) {
  SCOPED_TRACE(testing::Message() << m << " x " << weight.n << " x " << weight.k);
  const std::vector<Bf16> x = Normal<Bf16>(m * weight.k);
  std::vector<std::byte> packed(Size(PanelBytes(m, TileSteps(weight.k * int64_t{sizeof(Bf16)}))), std::byte{0x7f});
  kernels.pack(x.data(), m, weight.k, packed.data(), SerialFor());
  std::vector<Bf16> y(Size(m * weight.n) + 1, ToBf16(7));
  kernels.run({.x = packed.data(), .stored = &stored, .y = y.data(), .m = m, .n = weight.n, .k = weight.k},
              ThreadPool(2));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < weight.n; ++j) {
      double exact = 0;
      double norm = 0;
      for (int64_t c = 0; c < weight.k; ++c) {
        const double term = double{Dequantize(weight, j, c)} * ToFloat(x[Size(i * weight.k + c)]);
        exact += term;
        norm += std::abs(term);
      }
      // A weight of int4 is rounded to bf16 first: half a unit of each term, at random.
      ASSERT_NEAR(ToFloat(y[Size(i * weight.n + j)]), exact, std::abs(exact) * 0x1p-8 + norm * 0x1p-10)
          << i << ", " << j;
    }
  }
  EXPECT_EQ(ToFloat(y.back()), 7);
}

// On every processor, and by its vectors where it has them.
void OnEveryKernel(const std::function<void(const TileLinearKernels&)>& body) {
  OnEveryIsaBesideEmulatedTiles([&] {
    body(kTileLinearKernels<EmulatedTiles>);
#if ROOFBENCH_X86
    if (IsaHas(VectorsFor(TileProduct::kBf16))) body(kTileLinearKernels<VectorTiles>);
#endif
  });
}

TEST(StoredRows, OfInt4EqualTheWeights) {
  for (const int64_t group : {32, 64, 128, 256}) {
    for (const int64_t n : {16, 40, 50}) {
      const int64_t k = 3 * std::max<int64_t>(group, 128);
      const PackedInt4 packed(Normal<float>(n * k, 0.25), 1, n, k, group);
      OnEveryKernel([&](const TileLinearKernels& kernels) {
        for (const int64_t m : {2, 20, 33}) ExpectProduct(kernels, packed.weight, StoredInt4(packed.weight), m);
      });
    }
  }
}

}  // namespace
}  // namespace roofbench::kernels
