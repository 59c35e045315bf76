// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(TrafficOf, PairsReadsAndWritesWithinAnOperation) {
  workload::Cost cost;
  cost.operations = {{.bytes_read = 10, .bytes_written = 4, .repeat = 2},
                     {.bytes_read = 1, .bytes_written = 6},
                     {.bytes_read = 3, .bytes_updated = 7}};
  const workload::Traffic mix = workload::TrafficOf(cost);
  EXPECT_DOUBLE_EQ(mix.copy, 2 * 2 * 4 + 2 * 1);
  EXPECT_DOUBLE_EQ(mix.read, 2 * 6 + 3);
  EXPECT_DOUBLE_EQ(mix.write, 5);
  EXPECT_DOUBLE_EQ(mix.update, 14);
  EXPECT_DOUBLE_EQ(mix.copy + mix.read + mix.write + mix.update, cost.Bytes());
}

TEST(SharesOf, AddUpToOneWithoutNegligibleStreams) {
  EXPECT_THAT(SharesOf({.read = 3, .copy = 1}), ElementsAre(0.75, 0.25, 0, 0));
  EXPECT_THAT(SharesOf({.read = 1, .copy = 49, .update = 49, .write = 1}),
              ElementsAre(0, DoubleEq(0.5), DoubleEq(0.5), 0));
  EXPECT_FALSE(MovesNothing(SharesOf({.write = 1e-9})));
  EXPECT_TRUE(MovesNothing(SharesOf({})));
}

constexpr int kRounds = 9;

TEST(Compete, CountsTheUpperQuartileOfTheRounds) {
  std::vector<double> rates = {1000, 40, 30, 10, 20, 50, 60, 11, 12};
  std::vector<Candidate> candidates = {
      {.roof = "read", .measure = [&rates, next = std::size_t{0}](double) mutable { return rates.at(next++); }}};
  Compete(candidates, 1);
  EXPECT_EQ(candidates[0].rate, 50) << "1000 was luck, and half of the rounds met a slow machine";
  EXPECT_NEAR(candidates[0].range.slow, 10.8, 1e-9) << "a tenth of the way from the slowest round, between two";
  EXPECT_NEAR(candidates[0].range.fast, 60 + 0.2 * 940, 1e-9);
}

TEST(Compete, AllTakeTurns) {
  std::vector<std::string> calls;
  const auto noting = [&](const char* name) {
    return Candidate{.roof = "read", .variant = name, .measure = [&calls, name](double seconds) {
                       EXPECT_DOUBLE_EQ(seconds, 0.1);
                       calls.emplace_back(name);
                       return 1.0;
                     }};
  };
  std::vector<Candidate> candidates = {noting("a"), noting("b")};
  Compete(candidates, 0.1 * kRounds);
  ASSERT_EQ(calls.size(), 2 * kRounds);
  calls.resize(5);
  EXPECT_THAT(calls, ElementsAre("a", "b", "a", "b", "a"));
}

TEST(Compete, ThoseThatTakeSecondsHaveOneRoundAndDoNotWin) {
  constexpr double kSeconds = 0.01;
  int calls = 0;
  const auto slow = [&calls](const char* variant) {
    return Candidate{.roof = "fp8", .variant = variant, .measure = [&calls](double) {
                       ++calls;
                       std::this_thread::sleep_for(std::chrono::duration<double>(5 * kSeconds));
                       return 1.0;
                     }};
  };
  std::vector<Candidate> candidates = {slow("as a reference"),
                                       slow("in doubles"),
                                       {.roof = "fp8", .variant = "by loops", .measure = [](double) { return 5.0; }}};
  Compete(candidates, kSeconds);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(candidates[1].rate, 1);
  EXPECT_EQ(Winner(candidates, "fp8")->variant, "by loops");
}

// A machine that runs at half its speed, except when `lucky` has its turn in every third round.
TEST(Winner, IsNotTheOneThatMetTheMachineAtItsFastest) {
  const auto round = std::make_shared<int>(0);
  const auto reaching = [&](const char* variant, double rate, bool lucky) {
    return Candidate{.roof = "read", .variant = variant, .measure = [=](double) {
                       const bool fast = *round % 3 == 0 && lucky;
                       if (lucky) ++*round;
                       return fast ? rate : rate / 2;
                     }};
  };
  std::vector<Candidate> candidates = {reaching("best", 100, false), reaching("slow", 60, false),
                                       reaching("lucky", 90, true)};
  Compete(candidates, 1);
  EXPECT_GT(candidates[2].rate, candidates[0].rate);
  EXPECT_EQ(Winner(candidates, "read")->variant, "best");
}

TEST(Winner, IsOfItsRoofAndOfEqualsTheFirst) {
  const auto standing = [](const char* roof, const char* variant, double value) {
    return Candidate{.roof = roof, .variant = variant, .rate = 1, .standing = value};
  };
  const std::vector<Candidate> candidates = {standing("read", "first", 1.1), standing("read", "second", 1.1),
                                             standing("read", "third", 1.0), standing("copy", "other", 2)};
  EXPECT_EQ(Winner(candidates, "read")->variant, "first");
  EXPECT_EQ(Winner(candidates, "copy")->variant, "other");
}

TEST(Winner, IsNullWhereNothingIsReached) {
  EXPECT_EQ(Winner({}, "read"), nullptr);
  std::vector<Candidate> none = {{.roof = "read", .measure = [](double) { return 0.0; }}};
  Compete(none, 1);
  EXPECT_EQ(Winner(none, "read"), nullptr);
  const Candidate some = {.roof = "read", .rate = 1, .standing = 1};
  EXPECT_EQ(Winner({&some, 1}, "copy"), nullptr);
}

}  // namespace
}  // namespace roofbench::hardware
