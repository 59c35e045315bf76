#include "lib/harness/laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/test_family.h"

namespace roofbench {
namespace {

class LawsTest : public testing::Test {
 protected:
  std::vector<Scaling> Fit(double (*seconds_of_n)(double)) {
    std::vector<PlannedCase> plan;
    for (const char* n : {"16", "32", "64", "128", "256"}) {
      Point point = family_.Points(Suite::kQuick)[0].With("n", n);
      plan.push_back({&family_, point, point.Name()});
    }
    return FitLaws(plan, [&](const std::string& name) {
      for (const PlannedCase& planned : plan) {
        if (planned.name == name) return seconds_of_n(planned.point.Number("n"));
      }
      return -1.0;
    });
  }

  FakeDevice device_;
  Family family_ = TestFamily(device_, 1);
};

TEST_F(LawsTest, FindsTheExponent) {
  const auto scalings = Fit([](double n) { return 3e-6 * n * n; });
  ASSERT_EQ(scalings.size(), 1);
  EXPECT_NEAR(scalings[0].fit.exponent, 2, 1e-9);
  EXPECT_EQ(scalings[0].expected, 1);
  EXPECT_EQ(scalings[0].overhead_below, 0);
  EXPECT_THAT(DescribeLaws(scalings), testing::HasSubstr("n^2.00 (2.00 to 2.00), expected n^1"));
}

TEST_F(LawsTest, SaysWhereOverheadRules) {
  // Flat up to 64, linear from there.
  const auto scalings = Fit([](double n) { return 1e-6 * std::max(64.0, n); });
  ASSERT_EQ(scalings.size(), 1);
  EXPECT_EQ(scalings[0].overhead_below, 32);
  EXPECT_THAT(DescribeLaws(scalings), testing::HasSubstr("overhead-bound up to n=32"));
}

TEST_F(LawsTest, CasesThatDidNotRunAreNoPoints) {
  EXPECT_TRUE(Fit([](double n) { return n < 100 ? -1.0 : n; }).empty());
  EXPECT_EQ(DescribeLaws({}), "");
}

}  // namespace
}  // namespace roofbench
