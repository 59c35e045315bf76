// SPDX-License-Identifier: Apache-2.0
// How well a model predicts a text, and the distance of its predictions from a reference model: the figures of
// `llama-perplexity --kl-divergence` (https://github.com/ggml-org/llama.cpp/tree/master/tools/perplexity).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace roofbench::models {

struct TextScore {
  double perplexity = 0;            // e to the mean of -ln p(next token)
  double reference_perplexity = 0;  // of the reference model
  double top1_agreement = 0;        // share of positions with the same most likely token
  // The KL divergence of the model's distribution from the reference's for each token, in nats.
  std::vector<double> divergences = {};
};

// Compares logits position by position, in fp64.
class TextScorer {
 public:
  // `tokens` [n] int64, n > 1; `reference` [n or more, vocab] fp32: row i has the reference's logits after tokens 0 to
  // i. Both on the CPU. c10::Error otherwise.
  TextScorer(at::Tensor tokens, at::Tensor reference);

  // Adds the model's logits [vocab] fp32 after the next token of the text, beginning with the first. Nothing is scored
  // after the last token. c10::Error if logits contain NaN.
  void Add(const at::Tensor& logits);

  // c10::Error before all tokens but the last have been added.
  TextScore Score() const;

 private:
  const at::Tensor tokens_;
  const at::Tensor reference_;
  int64_t next_ = 0;
  double loss_ = 0;
  double reference_loss_ = 0;
  int64_t agreed_ = 0;
  std::vector<double> divergences_;
};

// The number of leading `tokens` [n] that another model would have chosen too; row i of `logits` [n, vocab] is its
// prediction of token i.
int64_t AgreedTokens(const at::Tensor& tokens, const at::Tensor& logits);

}  // namespace roofbench::models
