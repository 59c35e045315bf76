// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/measured_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace roofbench {
namespace {

// Runs and their invented times.
class MeasuredChoiceTest : public testing::Test {
 protected:
  bool TakesOurs(const ShapeClass& shape) {
    return choice_.TakesOurs(
        shape, [this] { ran_ += 'o'; }, [this] { ran_ += 'l'; });
  }

  std::string ran_;  // by whose function
  std::vector<double> ours_ = {1, 1, 1};
  std::vector<double> library_ = {2, 2, 2};
  MeasuredChoice choice_{[this](MeasuredChoice::Function run) {
    run();
    std::vector<double>& times = ran_.back() == 'o' ? ours_ : library_;
    const double seconds = times.back();
    times.pop_back();
    return seconds;
  }};
};

constexpr ShapeClass kShape{.operation = "linear", .rows = 33, .n = 8, .k = 16, .threads = 2};

TEST_F(MeasuredChoiceTest, MeasuresInTurnsAfterAFirstRunOfEach) {
  EXPECT_TRUE(TakesOurs(kShape));
  EXPECT_EQ(ran_, "olololol");
}

TEST_F(MeasuredChoiceTest, ComparesTheLeastTimes) {
  ours_ = {3, 1.5, 3};
  library_ = {9, 9, 1.4};
  EXPECT_FALSE(TakesOurs(kShape));
}

TEST_F(MeasuredChoiceTest, TakesOursIfNoneIsFaster) {
  library_ = {1, 2, 2};
  EXPECT_TRUE(TakesOurs(kShape));
}

TEST_F(MeasuredChoiceTest, MeasuresAClassOnce) {
  ours_ = {3, 3, 3};
  EXPECT_FALSE(TakesOurs(kShape));
  ran_.clear();
  for (const int64_t rows : {33, 50, 64}) {
    ShapeClass same = kShape;
    same.rows = rows;
    EXPECT_FALSE(TakesOurs(same)) << rows;
  }
  EXPECT_EQ(ran_, "") << "more rows below the same power of two";
}

TEST_F(MeasuredChoiceTest, MeasuresEachClass) {
  std::vector<ShapeClass> others(6, kShape);
  others[0].rows = 32;
  others[1].n = 9;
  others[2].k = 9;
  others[3].threads = 1;
  others[4].operation = "attention";
  others[5].type = at::kHalf;
  EXPECT_TRUE(TakesOurs(kShape));
  for (const ShapeClass& other : others) {
    ran_.clear();
    ours_ = {2, 2, 2};
    library_ = {1, 1, 1};
    EXPECT_FALSE(TakesOurs(other)) << &other - others.data();
    EXPECT_EQ(ran_, "olololol");
  }
  EXPECT_TRUE(TakesOurs(kShape)) << "as before";
}

TEST(MeasuredChoice, HasAClockAndIsOneOfTheProcess) {
  MeasuredChoice choice;
  const auto nothing = [] {};
  const auto sleeps = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  EXPECT_TRUE(choice.TakesOurs(kShape, nothing, sleeps));
  ShapeClass other = kShape;
  other.n = 1;
  EXPECT_FALSE(choice.TakesOurs(other, sleeps, nothing));
  EXPECT_EQ(MeasuredChoice::OfProcess(), MeasuredChoice::OfProcess());
}

}  // namespace
}  // namespace roofbench
