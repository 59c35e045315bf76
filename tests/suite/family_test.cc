// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(const Family& family, Suite suite) {
  std::vector<std::string> names;
  for (const Point& point : family.Points(suite)) names.push_back(point.Name());
  return names;
}

std::string Problem(const Family& family) { return family.Problem(); }

TEST(Family, SuitesHoldTheSmallerOnes) {
  FakeDevice device;
  const Family family = TestFamily(device, 1e-3);
  EXPECT_THAT(Names(family, Suite::kQuick), ElementsAre("test/n:16", "test/n:32", "test/n:64"));
  EXPECT_THAT(Names(family, Suite::kFull), ElementsAre("test/n:16", "test/n:32", "test/n:64", "test/n:4096"));
}

TEST(Family, PointsOutliveAMoveOfTheFamily) {
  FakeDevice device;
  Family family = TestFamily(device, 1e-3);
  const std::vector<Point> points = family.Points(Suite::kQuick);
  const Family moved = std::move(family);
  EXPECT_EQ(points[0].Name(), "test/n:16");
}

TEST(Family, SaysWhatIsWrongWithARegistration) {
  FakeDevice device;
  EXPECT_EQ(Problem(TestFamily(device, 1)), "");
  EXPECT_THAT(Problem(PlainFamily("f", "")), HasSubstr("no points"));
  EXPECT_THAT(Problem(PlainFamily("f", "").Grid(Suite::kQuick, {})), HasSubstr("needs work, operands"));
  const auto with = [&](const GridAxes& axes) { return Problem(TestFamily(device, 1).Grid(Suite::kQuick, axes)); };
  EXPECT_THAT(with({{"k", {"1"}}}), HasSubstr("unknown axis 'k'"));
  EXPECT_THAT(with({{"n", {"zero"}}}), HasSubstr("'zero' is not a value"));
  EXPECT_THAT(with({{"n", {"1"}}, {"impl", {"best"}}}), HasSubstr("good, wrong"));
}

}  // namespace
}  // namespace roofbench
