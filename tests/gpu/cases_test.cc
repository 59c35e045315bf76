// SPDX-License-Identifier: Apache-2.0
// Every registered family on the GPU: right results, graphs that equal the eager step, and wrong results that fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/run/session.h"
#include "tests/benchmarks/every_case.h"
#include "tests/benchmarks/small_points.h"
#include "tests/gpu/gpu_test.h"

namespace roofbench {
namespace {

class CasesTest : public GpuTest, public testing::WithParamInterface<PlannedCase> {};

TEST_P(CasesTest, IsRightAndItsCheckFindsFaults) {
  if (IsRightTwice(GetParam(), Few(), device())) ExpectFaultsFoundAndClonesAlike(GetParam(), Few(), device());
}

INSTANTIATE_TEST_SUITE_P(Families, CasesTest, testing::ValuesIn(SmallPoints()), TestNameOf);

AxisValues MlpAt(const std::string& impl) { return {{"impl", impl}, {"dtype", "bf16_autocast"}, {"d", "1024"}}; }

// Without a GPU, too: a value that the family lacks would be found on the day of the first GPU.
TEST(GraphCases, AreThoseOfTheFamily) {
  const std::vector<AxisSpec>& axes = FamilyNamed("mlp").axes();
  for (const char* impl : {"eager", "graph"}) {
    for (const auto& [name, value] : MlpAt(impl)) {
      const auto axis = std::ranges::find(axes, name, &AxisSpec::name);
      ASSERT_NE(axis, axes.end()) << name;
      EXPECT_TRUE(ValidValue(*axis, axes, value)) << name << ":" << value;
    }
  }
}

class GraphTest : public GpuTest {};

TEST_F(GraphTest, PhasesOfAGraphAreThoseOfItsEagerStep) {
  const RunOptions options = Few();
  const auto median_of = [&](const std::string& impl) {
    const PlannedCase planned = CaseAt("mlp", MlpAt(impl));
    Session session(options, device(), {planned}, nullptr);
    const Outcome& outcome = session.Run(0);
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
    double forward = -1;
    double backward = -1;
    for (const auto& [name, value] : outcome.counters) {
      if (name == "forward_ms") forward = value;
      if (name == "backward_ms") backward = value;
    }
    std::printf("%s: %.3f ms, forward %.3f, backward %.3f\n", impl.c_str(), outcome.summary.median * 1e3, forward,
                backward);
    EXPECT_GT(forward, 0);
    EXPECT_GT(backward, forward) << "twice the products";
    // Gaps between graph launches would not belong to a phase; here the phases add up to the step by construction.
    EXPECT_NEAR((forward + backward) * 1e-3, outcome.summary.median, 0.2 * outcome.summary.median);
    return outcome.summary.median;
  };
  EXPECT_LE(median_of("graph"), 1.1 * median_of("eager")) << "one launch is at most as slow as many";
}

}  // namespace
}  // namespace roofbench
