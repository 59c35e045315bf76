// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/text_score.h"

#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace roofbench::models {
namespace {

// Logits of these probabilities, shifted by a constant that cancels.
at::Tensor Saying(const std::vector<float>& probabilities) { return at::tensor(probabilities).log() + 3; }

at::Tensor Text() { return at::tensor(std::vector<int64_t>{0, 1, 2}); }

at::Tensor Reference() {
  return at::stack({Saying({0.25F, 0.5F, 0.25F}), Saying({0.1F, 0.1F, 0.8F}), Saying({1.F / 3, 1.F / 3, 1.F / 3})});
}

TEST(TextScorer, ByHand) {
  TextScorer scorer(Text(), Reference());
  scorer.Add(Saying({0.5F, 0.25F, 0.25F}));  // another first choice
  scorer.Add(Saying({0.1F, 0.1F, 0.8F}));
  scorer.Add(Saying({0.9F, 0.05F, 0.05F}));  // nothing follows it
  const TextScore score = scorer.Score();
  EXPECT_NEAR(score.perplexity, 1 / std::sqrt(0.25 * 0.8), 1e-6);
  EXPECT_NEAR(score.reference_perplexity, 1 / std::sqrt(0.5 * 0.8), 1e-6);
  const double kl = 0.25 * std::log(0.25 / 0.5) + 0.5 * std::log(0.5 / 0.25);
  ASSERT_EQ(score.divergences.size(), 2U);
  EXPECT_NEAR(score.divergences[0], kl, 1e-6);
  EXPECT_NEAR(score.divergences[1], 0, 1e-6);
  EXPECT_EQ(score.top1_agreement, 0.5);
}

TEST(TextScorer, TheSameModelHasNoDivergence) {
  TextScorer scorer(Text(), Reference());
  for (int64_t i = 0; i < 3; ++i) scorer.Add(Reference()[i]);
  const TextScore score = scorer.Score();
  EXPECT_EQ(score.divergences, (std::vector<double>{0, 0}));
  EXPECT_EQ(score.top1_agreement, 1);
  EXPECT_EQ(score.perplexity, score.reference_perplexity);
}

TEST(TextScorer, TokensThatTheReferenceRulesOutCostNothing) {
  const float never = -std::numeric_limits<float>::infinity();
  const at::Tensor reference = at::tensor(std::vector<float>{never, 0, 0}).expand({2, 3}).contiguous();
  TextScorer scorer(at::tensor(std::vector<int64_t>{0, 1}), reference);
  scorer.Add(at::zeros({3}));
  EXPECT_NEAR(scorer.Score().divergences[0], std::log(3.0 / 2), 1e-6);
}

TEST(TextScorer, RefusesInvalidTexts) {
  EXPECT_THROW(TextScorer(at::zeros({1}, at::kLong), Reference()), c10::Error);
  EXPECT_THROW(TextScorer(Text(), Reference().narrow(0, 0, 2)), c10::Error);
  TextScorer scorer(Text(), Reference());
  EXPECT_THROW(scorer.Add(at::full({3}, std::nanf(""))), c10::Error);
  TextScorer unread(Text(), Reference());
  unread.Add(at::zeros({3}));
  EXPECT_THROW(static_cast<void>(unread.Score()), c10::Error);
}

TEST(AgreedTokens, UntilTheFirstOther) {
  const at::Tensor logits = at::tensor(std::vector<float>{0, 1, 1, 0, 0, 1}).view({3, 2});
  const auto agreed = [&](std::vector<int64_t> tokens) { return AgreedTokens(at::tensor(tokens), logits); };
  EXPECT_EQ(agreed({1, 0, 1}), 3);
  EXPECT_EQ(agreed({1, 1, 1}), 1);
  EXPECT_EQ(agreed({0, 0, 1}), 0);
}

}  // namespace
}  // namespace roofbench::models
