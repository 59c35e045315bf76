// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/isa.h"

#include <gtest/gtest.h>

#include <string_view>

namespace roofbench::kernels {
namespace {

constexpr IsaRow<std::string_view> kTable[] = {{kAvx512Bf16, "bf16"}, {kAvx512, "avx512"}, {0, "portable"}};
static_assert(IsComplete(kTable));

// Nothing is left for a processor without the last row's instructions.
constexpr IsaRow<int> kWithoutPortable[] = {{kAvx512, 1}, {kAvx2, 2}};
static_assert(!IsComplete(kWithoutPortable));
// The second row is never chosen: whoever has what it needs has what the first needs.
constexpr IsaRow<int> kHidden[] = {{kAvx2, 1}, {kAvx512, 2}, {0, 3}};
static_assert(!IsComplete(kHidden));

TEST(FirstRow, IsTheMostDemandingThatTheFeaturesAllow) {
  EXPECT_EQ(FirstRow(kTable, ~0U), 0);
  EXPECT_EQ(FirstRow(kTable, kAvx2 | kAvx512 | kAvx512Vnni), 1);
  EXPECT_EQ(FirstRow(kTable, kAvx2), 2);
  EXPECT_EQ(FirstRow(kTable, 0), 2);
}

TEST(BestWay, FollowsWhatTheProcessorHasAndATestAllows) {
  EXPECT_EQ(BestWay<kTable>(), IsaHas(kAvx512Bf16) ? "bf16" : IsaHas(kAvx512) ? "avx512" : "portable");
  {
    const LimitIsa limit(kAvx2 | kAvx512);
    EXPECT_FALSE(IsaHas(kAvx512Bf16));
    EXPECT_EQ(BestWay<kTable>(), IsaHas(kAvx512) ? "avx512" : "portable");
  }
  const LimitIsa limit(0);
  EXPECT_EQ(BestWay<kTable>(), "portable");
}

TEST(IsaHas, NeedsAllOfTheFeatures) {
  EXPECT_TRUE(IsaHas(0));
  const LimitIsa limit(kAvx2);
  EXPECT_FALSE(IsaHas(kAvx2 | kAvx512));
}

TEST(WidestVectors, AreThoseOfTheLimit) {
  const std::string_view here = WidestVectors();
  {
    const LimitIsa limit(kAvx2);
    EXPECT_EQ(WidestVectors(), here == "baseline" ? "baseline" : "avx2");
  }
  const LimitIsa limit(0);
  EXPECT_EQ(WidestVectors(), "baseline");
}

}  // namespace
}  // namespace roofbench::kernels
