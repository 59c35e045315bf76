#include "lib/harness/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/test_family.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlanTest : public testing::Test {
 protected:
  std::vector<std::string> Names(const Options& options) {
    const auto plan = MakePlan(families_, options);
    std::vector<std::string> names;
    if (!plan.ok()) return {std::string(plan.status().message())};
    for (const PlannedCase& planned : *plan) names.push_back(planned.name);
    return names;
  }

  std::string Error(const Options& options) {
    const auto plan = MakePlan(families_, options);
    return plan.ok() ? "no error" : std::string(plan.status().message());
  }

  FakeDevice device_;
  std::vector<Family> families_ = {TestFamily(device_, 1, "a"), TestFamily(device_, 1, "b")};
};

TEST_F(PlanTest, FilterIsSearchedAndCanBeTurnedRound) {
  Options options;
  options.filter = "a/.*(16|32)";
  EXPECT_THAT(Names(options), ElementsAre("a/n:16", "a/n:32"));
  options.filter = "-^a|n:(16|32)";
  EXPECT_THAT(Names(options), ElementsAre("b/n:64"));
  options.filter = "n:16/manual_time$";
  EXPECT_THAT(Names(options), ElementsAre("a/n:16", "b/n:16"));
}

TEST_F(PlanTest, AxisReplacesTheRegisteredValuesOfOneFamilyOrOfAll) {
  Options options;
  options.axes = {{.family = "a", .axis = "n", .values = {"3000", "5"}}};
  EXPECT_THAT(Names(options), ElementsAre("a/n:3000", "a/n:5", "b/n:16", "b/n:32", "b/n:64"));
  options.axes = {{.axis = "n", .values = {"7"}}, {.family = "b", .axis = "impl", .values = {"wrong"}}};
  EXPECT_THAT(Names(options), ElementsAre("a/n:7", "b/impl:wrong/n:7"));
}

TEST_F(PlanTest, RefusalsNameWhatIsValid) {
  Options options;
  options.axes = {{.family = "c", .axis = "n", .values = {"1"}}};
  EXPECT_THAT(Error(options), testing::AllOf(HasSubstr("'c'"), HasSubstr("a, b")));
  options.axes = {{.family = "a", .axis = "batch", .values = {"1"}}};
  EXPECT_THAT(Error(options), testing::AllOf(HasSubstr("'batch'"), HasSubstr("cache, impl, n")));
  options.axes = {{.axis = "impl", .values = {"best"}}};
  EXPECT_THAT(Error(options), testing::AllOf(HasSubstr("'best'"), HasSubstr("good, wrong, throws")));
  options.axes.clear();
  options.filter = "(";
  EXPECT_THAT(Error(options), HasSubstr("no valid regular expression"));
  options.filter = "nothing";
  EXPECT_THAT(Error(options), testing::AllOf(HasSubstr("nothing"), HasSubstr("matches no case")));
}

TEST_F(PlanTest, AxesAreDescribed) {
  EXPECT_THAT(DescribeAxes(families_),
              testing::AllOf(HasSubstr("a: adds one"), HasSubstr("registered 16, 32, 64, 4096"),
                             HasSubstr("good, wrong, throws, refuses [good]")));
}

}  // namespace
}  // namespace roofbench
