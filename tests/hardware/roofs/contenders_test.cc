// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/contenders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::ElementsAre;

constexpr double kRates[] = {10, 50, 1000, 20, 40};

// Reaches kRates one after another.
Contender Changing() {
  return {.roof = "read",
          .variant = "changing",
          .measure = [next = 0](double, int) mutable { return kRates[next++ % 5]; },
          .runs_alone = false};
}

TEST(Compete, CountsTheSecondBestOfFiveRounds) {
  std::vector<Contender> contenders = {Changing()};
  Compete(contenders, 1, 2);
  EXPECT_EQ(contenders[0].together, 50) << "1000 was luck";
  EXPECT_EQ(contenders[0].alone, 0) << "it cannot run alone";
}

TEST(Compete, AllTakeTurnsOnOneThreadAndOnAll) {
  std::vector<std::string> calls;
  const auto noting = [&](const char* name) {
    return Contender{.roof = "read", .variant = name, .measure = [&calls, name](double, int threads) {
                       calls.push_back(name + std::to_string(threads));
                       return static_cast<double>(threads);
                     }};
  };
  std::vector<Contender> contenders = {noting("a"), noting("b")};
  Compete(contenders, 1, 3);
  ASSERT_EQ(calls.size(), 20);
  calls.resize(5);
  EXPECT_THAT(calls, ElementsAre("a1", "a3", "b1", "b3", "a1"));
  EXPECT_EQ(contenders[1].alone, 1);
  EXPECT_EQ(contenders[1].together, 3);
}

TEST(Compete, OneThreadIsMeasuredOnce) {
  int calls = 0;
  Contender contender{.measure = [&](double seconds, int threads) {
    EXPECT_DOUBLE_EQ(seconds, 0.2);
    EXPECT_EQ(threads, 1);
    ++calls;
    return 7.0;
  }};
  Compete({&contender, 1}, 1, 1);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(contender.alone, 7);
  EXPECT_EQ(contender.together, 7);
}

Contender Measured(const char* variant, double alone, double together) {
  return {.roof = "read", .variant = variant, .alone = alone, .together = together};
}

TEST(Winner, OfEqualsIsTheFastestAloneAndThenTheFirst) {
  const std::vector<Contender> contenders = {Measured("slow", 9, 90), Measured("first", 3, 98),
                                             Measured("alone", 5, 99), Measured("top", 3, 100)};
  EXPECT_EQ(Winner(contenders, "read", 0)->variant, "top");
  EXPECT_EQ(Winner(contenders, "read", 0.03)->variant, "alone");
  EXPECT_EQ(Winner({contenders.data(), 2}, "read", 0.03)->variant, "first");
  const std::vector<Contender> same = {Measured("first", 3, 100), Measured("second", 3, 100)};
  EXPECT_EQ(Winner(same, "read", 0)->variant, "first");
}

TEST(Winner, IsNobodyWhereNothingIsReached) {
  EXPECT_EQ(Winner({}, "read", 0), nullptr);
  const Contender none = Measured("none", 0, 0);
  EXPECT_EQ(Winner({&none, 1}, "read", 0.03), nullptr);
  const Contender some = Measured("some", 1, 1);
  EXPECT_EQ(Winner({&some, 1}, "copy", 0.03), nullptr);
}

}  // namespace
}  // namespace roofbench::hardware
