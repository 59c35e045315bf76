// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/expert_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace roofbench::models {
namespace {

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// A NaN comes first, so that it spoils the token as it would in the softmax over all.
float Rank(float logit) { return std::isnan(logit) ? std::numeric_limits<float>::infinity() : logit; }

}  // namespace

ExpertPlan::ExpertPlan(int64_t tokens, int64_t experts, int64_t active)
    : active_(active),
      logits_(Size(experts)),
      is_taken_(Size(experts)),
      chosen_(Size(tokens * active)),
      begins_(Size(experts + 1)),
      tokens_(Size(tokens * active)),
      weights_(Size(tokens * active), 1.0F) {
  if (experts > 1) return;
  std::iota(tokens_.begin(), tokens_.end(), 0);
  begins_ = {0, tokens};
}

void ExpertPlan::Choose(int64_t token) {
  const auto own = std::span(chosen_).subspan(Size(token * active_), Size(active_));
  std::ranges::fill(is_taken_, char{0});
  for (auto& [expert, weight] : own) {
    // Whatever the logits are, no expert is taken twice: it has room for each token once.
    std::size_t best = logits_.size();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (is_taken_[i] == 0 && (best == logits_.size() || Rank(logits_[i]) > Rank(logits_[best]))) best = i;
    }
    is_taken_[best] = 1;
    expert = static_cast<int64_t>(best);
    weight = logits_[best];
  }
  // The softmax over all, taken for the chosen and made to sum to one, is the softmax over the chosen.
  const float largest = own.front().second;
  float sum = 0;
  for (auto& [expert, weight] : own) {
    weight = std::exp(weight - largest);
    sum += weight;
  }
  for (auto& [expert, weight] : own) weight /= sum;
}

void ExpertPlan::Assign(int64_t tokens) {
  std::size_t slot = 0;
  if (logits_.size() == 1) {
    begins_.back() = tokens;
    return;
  }
  for (std::size_t expert = 0; expert < logits_.size(); ++expert) {
    begins_[expert] = static_cast<int64_t>(slot);
    for (std::size_t i = 0; i < Size(tokens * active_); ++i) {
      if (chosen_[i].first != static_cast<int64_t>(expert)) continue;
      tokens_[slot] = static_cast<int64_t>(i) / active_;
      weights_[slot++] = chosen_[i].second;
    }
  }
  begins_.back() = static_cast<int64_t>(slot);
}

}  // namespace roofbench::models
