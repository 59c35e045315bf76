// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/expert_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
  // Twice: nothing is left of the plan before.
  for (int round = 0; round < 2; ++round) {
    for (int64_t token = 0; token < 2; ++token) {
      std::ranges::copy(logits[static_cast<std::size_t>(token)], plan.logits().begin());
      plan.Choose(token);
    }
    plan.Assign();
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

}  // namespace
}  // namespace roofbench::models
