// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/suite/describe.h"
#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlanTest : public testing::Test {
 protected:
  std::vector<std::string> Names(const Selection& selection) {
    const auto plan = MakePlan(families_, selection);
    std::vector<std::string> names;
    if (!plan.ok()) return {std::string(plan.status().message())};
    for (const PlannedCase& planned : *plan) names.push_back(planned.name);
    return names;
  }

  std::string Error(const Selection& selection) {
    const auto plan = MakePlan(families_, selection);
    return plan.ok() ? "no error" : std::string(plan.status().message());
  }

  FakeDevice device_;
  std::vector<Family> families_ = {TestFamily(device_, 1, "a"), TestFamily(device_, 1, "b")};
};

TEST_F(PlanTest, FilterIsSearchedAndCanBeTurnedRound) {
  Selection selection;
  selection.filter = "a/.*(16|32)";
  EXPECT_THAT(Names(selection), ElementsAre("a/n:16", "a/n:32"));
  selection.filter = "-^a|n:(16|32)";
  EXPECT_THAT(Names(selection), ElementsAre("b/n:64"));
  selection.filter = "n:16/manual_time$";
  EXPECT_THAT(Names(selection), ElementsAre("a/n:16", "b/n:16"));
}

TEST_F(PlanTest, AxisReplacesTheRegisteredValuesOfOneFamilyOrOfAll) {
  Selection selection;
  selection.axes = {{.family = "a", .axis = "n", .values = {"3000", "5"}}};
  EXPECT_THAT(Names(selection), ElementsAre("a/n:3000", "a/n:5", "b/n:16", "b/n:32", "b/n:64"));
  selection.axes = {{.axis = "n", .values = {"7"}}, {.family = "b", .axis = "impl", .values = {"wrong"}}};
  EXPECT_THAT(Names(selection), ElementsAre("a/n:7", "b/impl:wrong/n:7"));
}

TEST_F(PlanTest, ManyPointsAreRefusedBeforeTheyAreMade) {
  Selection selection;
  selection.axes = {{.family = "a", .axis = "n", .values = std::vector<std::string>(200'001, "1")}};
  EXPECT_EQ(Error(selection),
            "--axis: a would have 1 times 200001 points, and a family has at most 200000; give fewer values of n");
}

// Other refusals are rows of tests/benchmarks/refusals_test.cc.
TEST_F(PlanTest, AMistypedFilterIsAnsweredWithWhatItMayMean) {
  families_.push_back(TestFamily(device_, 1, "matmul"));
  Selection selection;
  for (const auto& [filter, meant] : {std::pair<const char*, const char*>{"^matmull/n:16", "'matmul' for 'matmull'"},
                                      {"matmul/impl:goood", "'impl:good' for 'impl:goood'"},
                                      {"matmul.*/n:166", "'n:16' for 'n:166'"}}) {
    selection.filter = filter;
    EXPECT_THAT(Error(selection), HasSubstr(meant));
  }
  selection.filter = "entirely_else";
  EXPECT_THAT(Error(selection), testing::Not(HasSubstr("did you mean")));
}

TEST_F(PlanTest, CasesAreListedWithEveryAxis) {
  Selection selection;
  selection.filter = "a/n:16";
  const auto plan = MakePlan(families_, selection);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(ListCases(*plan, /*as_json=*/false), "a/n:16\n");
  const auto listed = nlohmann::json::parse(ListCases(*plan, /*as_json=*/true));
  EXPECT_EQ(listed.at(0).at("name"), "a/n:16");
  EXPECT_EQ(listed.at(0).at("axes").at("impl"), "good") << "a default has no place in the name";
  EXPECT_EQ(listed.at(0).at("axes").at("n"), 16);
}

TEST_F(PlanTest, AFilterMaySpellDefaults) {
  Selection selection;
  selection.filter = "a/impl:good/n:16";
  EXPECT_THAT(Names(selection), ElementsAre("a/n:16"));
}

}  // namespace
}  // namespace roofbench
