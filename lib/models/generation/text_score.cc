// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/text_score.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/log_softmax.h>

#include <cmath>
#include <utility>

namespace roofbench::models {
namespace {

// ln p of every token.
at::Tensor LogProbabilities(const at::Tensor& logits) {
  at::Tensor logs = at::log_softmax(logits.to(at::kDouble), -1);
  // One NaN or +infinity makes all of them NaN; -infinity is an impossible token.
  TORCH_CHECK(!logs.isnan().any().item<bool>(), "logits contain NaN");
  return logs;
}

}  // namespace

TextScorer::TextScorer(at::Tensor tokens, at::Tensor reference)
    : tokens_(std::move(tokens)), reference_(std::move(reference)) {
  TORCH_CHECK(tokens_.dim() == 1 && tokens_.size(0) >= 2, "a text of two tokens or more can be scored");
  TORCH_CHECK(reference_.dim() == 2 && reference_.size(0) >= tokens_.size(0), "the reference must have read the text");
}

void TextScorer::Add(const at::Tensor& logits) {
  TORCH_CHECK(next_ < tokens_.size(0), "the text has ", tokens_.size(0), " tokens");
  const int64_t position = next_++;
  if (position + 1 == tokens_.size(0)) return;
  const at::Tensor model = LogProbabilities(logits);
  const at::Tensor reference = LogProbabilities(reference_.select(0, position));
  const auto following = tokens_.const_data_ptr<int64_t>()[position + 1];
  loss_ -= model.select(0, following).item<double>();
  reference_loss_ -= reference.select(0, following).item<double>();
  // 0 ln 0 is 0.
  const at::Tensor terms = reference.exp() * (reference - model);
  divergences_.push_back(terms.masked_fill(reference.isneginf(), 0).sum().item<double>());
  if (model.argmax().item<int64_t>() == reference.argmax().item<int64_t>()) ++agreed_;
}

TextScore TextScorer::Score() const {
  TORCH_CHECK(static_cast<int64_t>(divergences_.size()) + 1 == tokens_.size(0),
              "the text has not been read to its end");
  const auto count = static_cast<double>(divergences_.size());
  return {.perplexity = std::exp(loss_ / count),
          .reference_perplexity = std::exp(reference_loss_ / count),
          .top1_agreement = static_cast<double>(agreed_) / count,
          .divergences = divergences_};
}

int64_t AgreedTokens(const at::Tensor& tokens, const at::Tensor& logits) {
  const at::Tensor chosen = logits.argmax(-1);
  for (int64_t i = 0; i < tokens.size(0); ++i) {
    if (chosen[i].item<int64_t>() != tokens[i].item<int64_t>()) return i;
  }
  return tokens.size(0);
}

}  // namespace roofbench::models
