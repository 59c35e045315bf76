// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/isa.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/simd/isa_test.cc"  // NOLINT(bugprone-suspicious-include)
#include "hwy/foreach_target.h"
// Highway's own header comes after that.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {

static int64_t CompiledFor() { return HWY_TARGET; }

}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

HWY_EXPORT(CompiledFor);

constexpr IsaVariant<std::string_view> kTable[] = {{kAvx512Bf16, "bf16"}, {kAvx512, "avx512"}, {0, "portable"}};
static_assert(IsComplete(kTable));

// The table is incomplete: a processor without the last row's instructions has no variant.
constexpr IsaVariant<int> kWithoutPortable[] = {{kAvx512, 1}, {kAvx2, 2}};
static_assert(!IsComplete(kWithoutPortable));
// The second row is never chosen: its requirements include those of the first.
constexpr IsaVariant<int> kHidden[] = {{kAvx2, 1}, {kAvx512, 2}, {0, 3}};
static_assert(!IsComplete(kHidden));

TEST(FirstVariant, IsTheMostDemandingThatTheFeaturesAllow) {
  EXPECT_EQ(FirstVariant(kTable, ~0U), 0);
  EXPECT_EQ(FirstVariant(kTable, kAvx2 | kAvx512 | kAvx512Vnni), 1);
  EXPECT_EQ(FirstVariant(kTable, kAvx2), 2);
  EXPECT_EQ(FirstVariant(kTable, 0), 2);
}

TEST(BestVariant, FollowsWhatTheProcessorHasAndATestAllows) {
  EXPECT_EQ(BestVariant<kTable>(), IsaHas(kAvx512Bf16) ? "bf16" : IsaHas(kAvx512) ? "avx512" : "portable");
  {
    const LimitIsa limit(kAvx2 | kAvx512);
    EXPECT_FALSE(IsaHas(kAvx512Bf16));
    EXPECT_EQ(BestVariant<kTable>(), IsaHas(kAvx512) ? "avx512" : "portable");
  }
  const LimitIsa limit(0);
  EXPECT_EQ(BestVariant<kTable>(), "portable");
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

// A processor with a wide target has those that it grew from, so that no narrower code goes untested.
TEST(HighwayTargets, AreAllThatThisProcessorCanRun) {
  const std::vector<HighwayTarget> targets = HighwayTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets[0].bit, HWY_DYNAMIC_DISPATCH(CompiledFor)());
  if (!ROOFBENCH_X86 || !IsaHas(kAvx2)) return;
  int64_t all = 0;
  for (const HighwayTarget& target : targets) all |= target.bit;
  for (const int64_t needed : {HWY_AVX2, HWY_SSE4, HWY_SSSE3}) {
    EXPECT_EQ(HWY_TARGETS & needed & ~all, 0) << hwy::TargetName(needed);
  }
}

TEST(LimitIsa, HighwayRunsTheTargetThatItIsLimitedTo) {
  const int64_t best = HWY_DYNAMIC_DISPATCH(CompiledFor)();
  for (const HighwayTarget& target : HighwayTargets()) {
    const LimitIsa limit(~0U, target.bit);
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(CompiledFor)(), target.bit) << target.name;
  }
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(CompiledFor)(), best);
}

}  // namespace
}  // namespace roofbench::kernels
#endif  // HWY_ONCE
