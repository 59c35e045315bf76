// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lib/models/generation/sampling.h"

// tests/oracles/test_sampling.py compares distributions and draws with those of transformers.
namespace roofbench::models {
namespace {

using testing::HasSubstr;

// Tokens 0, 1, … with these weights.
Candidates Of(const std::vector<double>& weights) {
  Candidates candidates;
  for (std::size_t i = 0; i < weights.size(); ++i) candidates.push_back({static_cast<int64_t>(i), weights[i]});
  return candidates;
}

// Candidates with these probabilities.
Candidates OfShares(std::vector<double> shares) {
  for (double& share : shares) share = std::log(share);
  return Of(shares);
}

std::vector<int64_t> Tokens(const Candidates& candidates) {
  std::vector<int64_t> tokens;
  for (const Candidate& one : candidates) tokens.push_back(one.token);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// The tokens that keep(…, value) keeps of `all`, for each value.
template <typename Value>
void ExpectKept(void (*keep)(Candidates&, Value), const Candidates& all,
                const std::vector<std::pair<Value, std::vector<int64_t>>>& table) {
  for (const auto& [value, kept] : table) {
    Candidates candidates = all;
    keep(candidates, value);
    EXPECT_EQ(Tokens(candidates), kept) << value;
  }
}

TEST(Sampling, TopKKeepsTies) {
  ExpectKept<int64_t>(KeepTopK, Of({1, 5, 3, 5, 3, 2}),
                      {{1, {1, 3}},
                       {2, {1, 3}},
                       {3, {1, 2, 3, 4}},
                       {4, {1, 2, 3, 4}},
                       {5, {1, 2, 3, 4, 5}},
                       {6, {0, 1, 2, 3, 4, 5}},
                       {7, {0, 1, 2, 3, 4, 5}}});
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  ExpectKept<double>(KeepTopP, OfShares({0.1, 0.4, 0.2, 0.3}),
                     {{1e-9, {1}},
                      {0.39, {1}},
                      {0.41, {1, 3}},
                      {0.69, {1, 3}},
                      {0.71, {1, 2, 3}},
                      {0.89, {1, 2, 3}},
                      {0.91, {0, 1, 2, 3}},
                      {1, {0, 1, 2, 3}}});
  ExpectKept<double>(KeepTopP, Of({7, 7, 7, 7}), {{0.5, {0, 1}}});  // reaching it exactly is enough
}

// The weights stay finite, and at least one token remains.
TEST(Sampling, ExtremeOptionsStayFinite) {
  const float large = std::numeric_limits<float>::max();
  const std::vector<float> logits = {-large, large, -large, 0};
  const std::vector<uint8_t> seen = {1, 1, 1, 1};
  for (const double factor : {1e-6, 1e6}) {
    for (const float sign : {1.0F, -1.0F}) {
      const std::vector<float> signed_logits = {sign * logits[0], sign * logits[1], sign * logits[2], 0};
      Candidates left;
      Distribution({.temperature = factor, .top_k = 4, .top_p = 1e-12, .min_p = 1, .repetition_penalty = factor},
                   signed_logits.data(), seen, left);
      ASSERT_FALSE(left.empty());
      double sum = 0;
      for (const Candidate& one : left) sum += one.weight;
      EXPECT_DOUBLE_EQ(sum, 1);
    }
  }
}

TEST(Sampling, OptionsOutOfRangeAreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<SamplingOptions, const char*>> table = {
      {{.temperature = 0}, "--temperature=0: expected a number from 1e-6 to 1e6 (--top_k=1 takes the likeliest)"},
      {{.temperature = nan}, "--temperature=nan: expected"},
      {{.top_k = -1}, "--top_k=-1: expected a whole number from 0"},
      {{.top_p = 0}, "--top_p=0: expected a number above 0, to 1"},
      {{.top_p = 1.5}, "--top_p=1.5: expected"},
      {{.top_p = nan}, "--top_p=nan: expected"},
      {{.min_p = -0.5}, "--min_p=-0.5: expected a number from 0 (of all tokens) to 1"},
      {{.min_p = 2}, "--min_p=2: expected"},
      {{.repetition_penalty = 0}, "--repetition_penalty=0: expected a number from 1e-6 to 1e6 (1: no penalty)"},
      {{.repetition_penalty = 1e300}, "--repetition_penalty=1e+300: expected"},
  };
  for (const auto& [options, said] : table) {
    EXPECT_THAT(std::string(CheckSampling(options).message()), HasSubstr(said));
  }
  EXPECT_TRUE(CheckSampling({}).ok());
  EXPECT_TRUE(CheckSampling({.temperature = 0.7, .top_k = 50, .top_p = 0.9, .min_p = 1}).ok());
}

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

TEST(TokenChooser, RefusesNonFiniteLogits) {
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

constexpr float kLogits[] = {2, 1.9F, 1.8F, -5};

TokenIds Draws(TokenSampler& sampler, int count) {
  TokenIds drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(sampler.Choose(0, kLogits));
  return drawn;
}

TEST(TokenSampler, DrawsDependOnTheSeed) {
  TokenSampler sampler({.seed = 3}, 4, {{}});
  const TokenIds first = Draws(sampler, 64);
  EXPECT_NE(first, Draws(sampler, 64));
  sampler.Restart();
  EXPECT_EQ(first, Draws(sampler, 64));
  TokenSampler other({.seed = 4}, 4, {{}});
  EXPECT_NE(first, Draws(other, 64));
}

// With so hard a penalty tokens do not repeat, as long as others remain.
TEST(TokenSampler, PenalizesTokensOfItsOwnText) {
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

TEST(TokenSampler, RefusesNonFiniteLogits) {
  TokenSampler sampler({}, 4, {{}});
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const float logits[] = {0, value, 0, 0};
    EXPECT_THROW(sampler.Choose(0, logits), c10::Error);
  }
}

}  // namespace
}  // namespace roofbench::models
