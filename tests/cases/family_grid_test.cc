// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/family_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cases/small_grid.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> Names(const FamilyGrid& family, Suite suite) {
  std::vector<std::string> names;
  for (const Point& point : family.Points(suite)) names.push_back(point.Name());
  return names;
}

TEST(FamilyGrid, SuitesHoldTheSmallerOnes) {
  const FamilyGrid family = SmallGrid("test");
  EXPECT_THAT(Names(family, Suite::kQuick), ElementsAre("test/n:16", "test/n:32", "test/n:64"));
  EXPECT_THAT(Names(family, Suite::kFull), ElementsAre("test/n:16", "test/n:32", "test/n:64", "test/n:4096"));
}

TEST(FamilyGrid, TheMachineSuiteStandsBesideTheOthers) {
  const FamilyGrid family({.name = "f",
                           .axes = WithCacheAxis({{.name = "n"}}, kCold),
                           .grids = {{Suite::kQuick, {{"n", {1, 2}}}},
                                     {Suite::kMachineQuick, {{"n", {4}}}},
                                     {Suite::kMachine, {{"n", {2, 3}}}}}});
  EXPECT_THAT(Names(family, Suite::kFull), ElementsAre("f/n:1", "f/n:2"));
  EXPECT_THAT(Names(family, Suite::kMachineQuick), ElementsAre("f/n:4"));
  EXPECT_THAT(Names(family, Suite::kMachine), UnorderedElementsAre("f/n:2", "f/n:3", "f/n:4"));
  EXPECT_THAT(ValuesIn(family.Points(), "n"), UnorderedElementsAre("1", "2", "3", "4")) << "all, each once";
}

TEST(FamilyGrid, ImplementationsComeFirstAndTheCacheLast) {
  EXPECT_EQ(SmallGrid("test").Points(Suite::kQuick)[0].FullName(), "test/impl:good/n:16/cache:cold");
}

TEST(FamilyGrid, PointsOutliveAMove) {
  FamilyGrid family = SmallGrid("test");
  const std::vector<Point> points = family.Points(Suite::kQuick);
  const FamilyGrid moved = std::move(family);
  EXPECT_EQ(points[0].Name(), "test/n:16");
}

TEST(FamilyGrid, SaysWhatIsWrongWithItsPoints) {
  const auto problem = [](std::vector<std::pair<Suite, GridAxes>> grids) {
    return FamilyGrid(
               {.name = "f",
                .axes = WithCacheAxis(
                    {{.name = "impl", .choices = {"good", "wrong"}, .default_value = "good"}, {.name = "n"}}, kCold),
                .grids = std::move(grids)})
        .Problem();
  };
  EXPECT_EQ(problem({{Suite::kQuick, {{"n", {1}}}}}), "");
  EXPECT_EQ(problem({}), "it has no points");
  EXPECT_THAT(problem({{Suite::kQuick, {{"k", {1}}}}}), HasSubstr("unknown axis 'k'"));
  EXPECT_THAT(problem({{Suite::kQuick, {{"n", {"zero"}}}}}), HasSubstr("'zero' is not a value"));
  EXPECT_THAT(problem({{Suite::kQuick, {{"n", {1}}, {"impl", {"best"}}}}}), HasSubstr("good, wrong"));
  const FamilyGrid grows({.name = "f",
                          .axes = WithCacheAxis({{.name = "n"}}, kCold),
                          .grids = {{Suite::kQuick, {{"n", {1}}}}},
                          .growth = {{"nn", 1}}});
  EXPECT_EQ(grows.Problem(), "its growth is that of unknown axis 'nn'");
}

TEST(FamilyGrid, IsDescribedWithItsGrowth) {
  const auto described = DescribeGrid(SmallGrid("a"), {"any"});
  EXPECT_EQ(described["name"], "a");
  EXPECT_EQ(described["cache_default"], "cold");
  EXPECT_EQ(described["axes"][0]["role"], "impl");
  EXPECT_EQ(described["axes"][0]["default"], "good");
  EXPECT_EQ(described["axes"][1]["kind"], "number");
  EXPECT_EQ(described["axes"][1]["role"], "size");
  EXPECT_TRUE(described["axes"][1]["default"].is_null());
  EXPECT_EQ(described["axes"][1]["values"], nlohmann::ordered_json({"16", "32", "64", "4096"}));
  EXPECT_EQ(described["implementations"], nlohmann::ordered_json({"any"}));
  EXPECT_EQ(described["growth"][0]["axis"], "n");
  EXPECT_EQ(described["growth"][0]["exponent"], 1);
}

}  // namespace
}  // namespace roofbench
