// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/point_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cases/small_grid.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlanTest : public testing::Test {
 protected:
  std::vector<std::string> Names(const Selection& selection) {
    const auto plan = PlanPoints(Grids(), selection);
    std::vector<std::string> names;
    if (!plan.ok()) return {std::string(plan.status().message())};
    for (const PlannedPoint& planned : *plan) names.push_back(planned.name);
    return names;
  }

  std::string Error(const Selection& selection) {
    const auto plan = PlanPoints(Grids(), selection);
    return plan.ok() ? "no error" : std::string(plan.status().message());
  }

  std::vector<const FamilyGrid*> Grids() const {
    std::vector<const FamilyGrid*> grids;
    for (const FamilyGrid& grid : grids_) grids.push_back(&grid);
    return grids;
  }

  std::vector<FamilyGrid> grids_ = {SmallGrid("a"), SmallGrid("b")};
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
  grids_.push_back(SmallGrid("matmul"));
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

TEST_F(PlanTest, SuggestionsComeFromTheNamedFamily) {
  grids_ = {FamilyGrid({.name = "one",
                        .axes = WithCacheAxis({{.name = "impl", .choices = {"naive"}}}, kCold),
                        .grids = {{Suite::kQuick, {{"impl", {"naive"}}}}}}),
            FamilyGrid({.name = "two",
                        .axes = WithCacheAxis({{.name = "impl", .choices = {"native"}}}, kCold),
                        .grids = {{Suite::kQuick, {{"impl", {"native"}}}}}})};
  Selection selection;
  selection.filter = "two/impl:naive";
  EXPECT_THAT(Error(selection), HasSubstr("did you mean 'impl:native' for 'impl:naive'?"));
  for (const char* beginning : {"^two/impl:nativ/", "two/impl:nativ$", "two/impl:n/"}) {
    selection.filter = beginning;
    EXPECT_THAT(Error(selection), HasSubstr("did you mean 'impl:native' for 'impl:n"));
  }
}

TEST_F(PlanTest, AValueThatNoRegisteredCaseHasCanBeAskedFor) {
  Selection selection;
  selection.filter = "^a/impl:good/n:12345/";
  EXPECT_THAT(Error(selection), HasSubstr("; --axis=a.n=12345 makes such cases; "));
}

TEST_F(PlanTest, PartsOfANameThatDoNotFollowEachOtherAreFound) {
  Selection selection;
  selection.filter = "^a/n:16/cache:cold$";
  EXPECT_THAT(Error(selection), HasSubstr("names that have all of its parts: 1, the first 'a/n:16' "
                                          "(--benchmark_filter='a.*/n:16.*/cache:cold' selects them)"));
}

TEST_F(PlanTest, AFilterOfNamesThatAnAxisChangesSaysSo) {
  Selection selection;
  selection.filter = "^a/n:16$";
  selection.axes = {{.axis = "n", .values = {"7"}}};
  EXPECT_THAT(Error(selection), HasSubstr("; --axis renames the cases that it selects, the first to 'a/n:7'; "));
}

TEST_F(PlanTest, AnAxisHasItsValuesOnce) {
  Selection selection;
  selection.axes = {{.family = "a", .axis = "n", .values = {"7"}},
                    {.axis = "n", .values = {"8"}},
                    {.family = "a", .axis = "n", .values = {"9", "10"}}};
  EXPECT_THAT(Error(selection), HasSubstr("--axis=a.n is given twice; --axis=a.n=7,9,10 has the values of both"));
  selection.axes.pop_back();
  EXPECT_THAT(Names(selection), ElementsAre("a/n:8", "b/n:8"));
}

TEST_F(PlanTest, AnAxisIsJudgedByTheFamiliesThatAreSelected) {
  grids_.push_back(FamilyGrid({.name = "other",
                               .axes = WithCacheAxis({{.name = "impl", .choices = {"else"}}}, kCold),
                               .grids = {{Suite::kQuick, {{"impl", {"else"}}}}}}));
  Selection selection;
  selection.axes = {{.axis = "impl", .values = {"wrong"}}};
  EXPECT_THAT(Error(selection), HasSubstr("'wrong' is not a value of axis impl of other; expected else"));
  selection.filter = "^a/";
  EXPECT_THAT(Names(selection), ElementsAre("a/impl:wrong/n:16", "a/impl:wrong/n:32", "a/impl:wrong/n:64"));
}

TEST_F(PlanTest, AFilterWithoutAMatchSaysWhereToLook) {
  Selection selection;
  selection.filter = "none";
  EXPECT_EQ(
      Error(selection),
      "--benchmark_filter=none matches no case of the quick suite; --benchmark_list_tests --suite=full lists all");
  selection.flag = "--filter";
  selection.searched = "file";
  selection.listing = "--list";
  EXPECT_EQ(Error(selection), "--filter=none matches no case of the file; --list lists all");
}

TEST_F(PlanTest, AFilterFindsElsewhereWhatItsSuiteLacks) {
  grids_.push_back(FamilyGrid({.name = "m",
                               .axes = WithCacheAxis({{.name = "n"}}, kCold),
                               .grids = {{Suite::kFull, {{"n", {1}}}}, {Suite::kMachine, {{"n", {1, 2}}}}}}));
  Selection selection{.suite = Suite::kFull, .axes = {}, .filter = "^m/n:2"};
  EXPECT_THAT(Error(selection), HasSubstr("no case of the full suite"));
  selection.otherwise = Suite::kMachine;
  EXPECT_THAT(Names(selection), ElementsAre("m/n:2"));
  selection.filter = "^m/";
  EXPECT_THAT(Names(selection), ElementsAre("m/n:1")) << "where the suite has some, its own alone";
  selection.filter = "^m/n:3";
  EXPECT_THAT(Error(selection), HasSubstr("no case of the full or machine suite"));
}

TEST_F(PlanTest, ANameIsNotLongerThanResultsAllow) {
  grids_ = {FamilyGrid({.name = "f",
                        .axes = WithCacheAxis({{.name = "mode", .choices = {std::string(300, 'x')}}}, kCold),
                        .grids = {{Suite::kQuick, {{"mode", {std::string(300, 'x')}}}}}})};
  EXPECT_THAT(Error({}), HasSubstr("has more than 300 bytes; shorten the values"));
}

TEST_F(PlanTest, CasesAreListedWithEveryAxis) {
  Selection selection;
  selection.filter = "a/n:16";
  const auto plan = PlanPoints(Grids(), selection);
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
