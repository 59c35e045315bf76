// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/native_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace roofbench::models {
namespace {

TEST(ExpertPlan, ADenseModelTakesAllTokens) {
  const ExpertPlan plan(3, 1, 1);
  EXPECT_EQ(plan.begin(0), 0);
  ASSERT_EQ(plan.count(0), 3);
  for (int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(plan.token(slot), slot);
    EXPECT_EQ(plan.weight(slot), 1);
  }
}

TEST(ExpertPlan, TheLargestLogitsTakeATokenByTheirSoftmax) {
  ExpertPlan plan(2, 4, 2);
  const std::vector<std::vector<float>> logits = {{1, 3, -2, 2}, {0, 5, 5, -1}};
  // Twice: the second plan must not depend on the first.
  for (int round = 0; round < 2; ++round) {
    for (int64_t token = 0; token < 2; ++token) {
      std::ranges::copy(logits[static_cast<std::size_t>(token)], plan.logits().begin());
      plan.Choose(token);
    }
    plan.Assign(2);
    EXPECT_EQ(plan.count(0), 0);
    ASSERT_EQ(plan.count(1), 2);
    ASSERT_EQ(plan.count(2), 1);
    ASSERT_EQ(plan.count(3), 1);
    EXPECT_EQ(plan.begin(3), 3);
    const float first = 1 / (1 + std::exp(-1.0F));  // of logits 3 and 2
    EXPECT_EQ(plan.token(plan.begin(1)), 0);
    EXPECT_FLOAT_EQ(plan.weight(plan.begin(1)), first);
    EXPECT_EQ(plan.token(plan.begin(1) + 1), 1);
    EXPECT_FLOAT_EQ(plan.weight(plan.begin(1) + 1), 0.5F);
    EXPECT_EQ(plan.token(plan.begin(2)), 1);
    EXPECT_FLOAT_EQ(plan.weight(plan.begin(2)), 0.5F);
    EXPECT_EQ(plan.token(plan.begin(3)), 0);
    EXPECT_FLOAT_EQ(plan.weight(plan.begin(3)), 1 - first);
  }
}

// An expert has room for each token once.
TEST(ExpertPlan, NeverChoosesAnExpertTwice) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> table = {
      {kNan, kNan, kNan, kNan},
      {kNan, 1, 2, 3},
      {1, 2, kNan, 3},
      {kInfinity, kInfinity, 1, 2},
      {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
      {3e38F, -3e38F, 3e38F, 0},
      {-kInfinity, 3e38F, -kInfinity, -kInfinity},
  };
  for (const std::vector<float>& logits : table) {
    for (int64_t active = 1; active <= 4; ++active) {
      ExpertPlan plan(2, 4, active);
      for (int64_t token = 0; token < 2; ++token) {
        std::ranges::copy(logits, plan.logits().begin());
        plan.Choose(token);
      }
      plan.Assign(2);
      for (int64_t expert = 0; expert < 4; ++expert) {
        std::set<int64_t> tokens;
        for (int64_t i = 0; i < plan.count(expert); ++i) tokens.insert(plan.token(plan.begin(expert) + i));
        EXPECT_EQ(static_cast<int64_t>(tokens.size()), plan.count(expert)) << testing::PrintToString(logits);
      }
    }
  }
}

TEST(ExpertPlan, OnlyNanSpoilsTheWeights) {
  const auto weights = [](const std::vector<float>& logits) {
    ExpertPlan plan(1, 3, 2);
    std::ranges::copy(logits, plan.logits().begin());
    plan.Choose(0);
    plan.Assign(1);
    return std::vector<float>{plan.weight(0), plan.weight(1)};
  };
  EXPECT_TRUE(std::ranges::all_of(weights({1, std::nanf(""), 3}), [](float weight) { return std::isnan(weight); }));
  EXPECT_EQ(weights({3e38F, -3e38F, 3e38F}), std::vector<float>({0.5F, 0.5F}));
  EXPECT_EQ(weights({3e38F, -3e38F, 2}), std::vector<float>({1, 0}));
}

}  // namespace
}  // namespace roofbench::models
