// SPDX-License-Identifier: Apache-2.0
// Beam search as transformers has it (GenerationMixin._beam_search, release 5.23, early_stopping false): of all
// continuations of the running texts those of the highest probability go on; texts that end compete by the sum of their
// log probabilities over their length to the power of a penalty.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/models/checkpoint/token_ids.h"

namespace roofbench::models {

struct BeamOptions {
  int64_t beams = 1;          // texts that run side by side
  double length_penalty = 1;  // above 0 longer texts win
};

// The new tokens of one prompt.
class BeamSearch {
 public:
  // `most_new` tokens at most, to the first of `stop_ids`. The vocabulary has tokens for twice the beams, and for as
  // many more as there are stop ids.
  BeamSearch(const BeamOptions& options, int64_t vocab, int64_t most_new, TokenIds stop_ids);

  // Starts over, as if newly made.
  void Restart();

  // By the logits (fp32 [beams, vocab]) after each running text; of the first step, where all are the prompt, the first
  // row counts. Returns whether the search goes on: then each running text is one of those before with a token more.
  // Throws c10::Error where a logit is an infinity or a NaN.
  bool Advance(const at::Tensor& logits);
  const std::vector<int64_t>& parents() const { return parents_; }  // [beams]: which text before
  const std::vector<int64_t>& tokens() const { return tokens_; }    // [beams]: and its last token

  // Once the search has ended: the best text, and the logits [vocab] that its last token was chosen from.
  const TokenIds& Best() const { return finished_.front().ids; }
  const at::Tensor& BestLogits() const { return finished_.front().logits; }
  int64_t steps() const { return steps_; }

 private:
  struct Text {
    TokenIds ids = {};
    double score = 0;        // the sum of log probabilities; of finished ones over the penalised length
    at::Tensor logits = {};  // of finished ones
  };
  struct Continuation {
    double score = 0;
    int64_t parent = 0;
    int64_t token = 0;
  };

  // The likeliest continuations, in descending order; of equal ones any.
  void FindContinuations(const at::Tensor& logits);
  bool Ends(const Continuation& one) const;
  void Finish(const at::Tensor& logits);
  // Whether a running text could still beat the worst of the finished ones.
  bool CanImprove() const;

  const BeamOptions options_;
  const int64_t vocab_;
  const int64_t most_new_;
  const TokenIds stop_ids_;
  std::vector<Text> running_;
  std::vector<Text> finished_;  // in descending order, `beams` at most
  std::vector<Continuation> continuations_;
  std::vector<int64_t> parents_;
  std::vector<int64_t> tokens_;
  int64_t steps_ = 0;
  bool can_improve_ = true;
};

}  // namespace roofbench::models
