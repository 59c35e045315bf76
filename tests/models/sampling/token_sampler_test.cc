// SPDX-License-Identifier: Apache-2.0
#include "lib/models/sampling/token_sampler.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace roofbench::models {
namespace {

constexpr float kLogits[] = {2, 1.9F, 1.8F, -5};

TokenIds Draws(TokenSampler& sampler, int count) {
  TokenIds drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(sampler.Choose(0, kLogits));
  return drawn;
}

TEST(TokenSampler, DrawsTheSameAgainAndOthersByAnotherSeed) {
  TokenSampler sampler({.seed = 3}, 4, {{}});
  const TokenIds first = Draws(sampler, 64);
  EXPECT_NE(first, Draws(sampler, 64));
  sampler.Restart();
  EXPECT_EQ(first, Draws(sampler, 64));
  TokenSampler other({.seed = 4}, 4, {{}});
  EXPECT_NE(first, Draws(other, 64));
}

// With so hard a penalty nothing comes twice, as long as there is something else.
TEST(TokenSampler, PenalisesWhatItsOwnTextHas) {
  TokenSampler sampler({.top_k = 1, .repetition_penalty = 1.5}, 4, {{0}, {1, 1}});
  EXPECT_EQ(sampler.Choose(0, kLogits), 1);
  EXPECT_EQ(sampler.Choose(0, kLogits), 2);
  EXPECT_EQ(sampler.Choose(1, kLogits), 0);
  EXPECT_EQ(sampler.Choose(1, kLogits), 2);
  EXPECT_EQ(sampler.Choose(0, kLogits), 0) << "all of them: once each";
  sampler.Restart();
  EXPECT_EQ(sampler.Choose(0, kLogits), 1);
  EXPECT_EQ(sampler.Choose(1, kLogits), 0);
}

TEST(TokenSampler, ChoosesByNumbersAlone) {
  TokenSampler sampler({}, 4, {{}});
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const float logits[] = {0, value, 0, 0};
    EXPECT_THROW(sampler.Choose(0, logits), c10::Error);
  }
}

}  // namespace
}  // namespace roofbench::models
