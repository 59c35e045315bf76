// SPDX-License-Identifier: Apache-2.0
#include "lib/models/sampling/token_choice.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace roofbench::models {
namespace {

TEST(TokenChooser, GreedyTakesTheFirstOfTheLargest) {
  const float logits[] = {1, 5, 2, 5};
  EXPECT_EQ(TokenChooser({}, 4).Choose(logits), 1);
}

TEST(TokenChooser, DrawsByTheSoftmaxOfTheMostLikely) {
  const float logits[] = {0, 2, 1, -9, 3};
  TokenChooser chooser({.top_k = 3, .temperature = 2, .seed = 1}, 5);
  constexpr int kDraws = 20000;
  int counts[5] = {};
  for (int i = 0; i < kDraws; ++i) ++counts[chooser.Choose(logits)];
  const double sum = std::exp(1.5) + std::exp(1.0) + std::exp(0.5);
  EXPECT_NEAR(counts[4], kDraws * std::exp(1.5) / sum, 300);
  EXPECT_NEAR(counts[1], kDraws * std::exp(1.0) / sum, 300);
  EXPECT_EQ(counts[0] + counts[3], 0);
}

TEST(TokenChooser, ChoosesByNumbersAlone) {
  for (const float odd :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(1000, 1.0F);
    logits[789] = odd;
    for (const int64_t top_k : {1, 200}) {
      TokenChooser chooser({.top_k = top_k}, 1000);
      EXPECT_THROW(chooser.Choose(logits.data()), c10::Error) << odd << " " << top_k;
    }
  }
  std::vector<float> huge(1000, -3e38F);
  huge[5] = 3e38F;
  EXPECT_EQ(TokenChooser({.top_k = 200}, 1000).Choose(huge.data()), 5);
}

TEST(TokenChooser, ASeedRepeatsItsDraws) {
  const float logits[] = {0, 0.1F, 0.2F, 0.3F};
  TokenChooser chooser({.top_k = 4, .seed = 7}, 4);
  std::vector<int64_t> first;
  for (int i = 0; i < 50; ++i) first.push_back(chooser.Choose(logits));
  chooser.Restart();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(chooser.Choose(logits), first[static_cast<std::size_t>(i)]);
}

}  // namespace
}  // namespace roofbench::models
