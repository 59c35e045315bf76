// SPDX-License-Identifier: Apache-2.0
// How well a model predicts a text, and how far its predictions are from those of another one: the figures of
// `llama-perplexity --kl-divergence` (https://github.com/ggml-org/llama.cpp/tree/master/tools/perplexity).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace roofbench::models {

struct TextScore {
  double perplexity = 0;            // e to the mean of -ln p(next token)
  double reference_perplexity = 0;  // of the other model
  double top1_agreement = 0;        // share of tokens that both think the most likely
  // Nats, of each token: the KL divergence of the model's distribution from the reference's.
  std::vector<double> divergences = {};
};

// Compares logits position by position, in fp64. Nothing is kept of a position but its figures.
class TextScorer {
 public:
  // `tokens` [n] int64 with at least two of them; `reference` [n or more, vocab] fp32: row i is what the reference says
  // after tokens 0 to i. Both on the CPU. c10::Error otherwise.
  TextScorer(at::Tensor tokens, at::Tensor reference);

  // What the model says [vocab] fp32 after the next token of the text, beginning with the first; after the last one
  // nothing follows, and nothing is scored. c10::Error where one of the logits is no number.
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

// How many of `tokens` [n], which one model chose one after another, another one would have chosen too before they
// first part: row i of `logits` [n, vocab] is what it says before token i.
int64_t AgreedTokens(const at::Tensor& tokens, const at::Tensor& logits);

}  // namespace roofbench::models
