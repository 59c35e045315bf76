// SPDX-License-Identifier: Apache-2.0
// Beam search as in transformers (GenerationMixin._beam_search, release 5.23): the most probable continuations of the
// running texts are kept; finished texts compete by the sum of their log probabilities divided by their length to the
// power of a penalty.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/models/generation/token_ids.h"

namespace roofbench::models {

// When a search with as many finished texts as beams ends: when the best running text could not beat them if it ended
// now; at once; or when it could not at any length up to the limit.
enum class EarlyStopping { kFalse, kTrue, kNever };

struct BeamOptions {
  int64_t beams = 1;          // running texts
  double length_penalty = 1;  // above 0 favors longer texts, below 0 shorter ones
  EarlyStopping early_stopping = EarlyStopping::kFalse;
};

// The new tokens of one prompt.
class BeamSearch {
 public:
  // Up to `most_new` tokens, or the first of `stop_ids`. The vocabulary must have as many tokens as beams times one
  // plus the number of stop ids, and at least two for each beam.
  BeamSearch(const BeamOptions& options, int64_t vocab, int64_t most_new, TokenIds stop_ids);

  // Starts over.
  void Restart();

  // Takes the logits (fp32 [beams, vocab]) after each running text; the first step uses only the first row. Returns
  // whether the search continues: then each running text is one of the previous texts plus a token. Throws c10::Error
  // if a logit is an infinity or a NaN.
  bool Advance(const at::Tensor& logits);
  const std::vector<int64_t>& parents() const { return parents_; }  // [beams]: the previous text
  const std::vector<int64_t>& tokens() const { return tokens_; }    // [beams]: the last token

  // After the search: the best text, and the logits [vocab] of its last token.
  const TokenIds& Best() const { return finished_.front().ids; }
  const at::Tensor& BestLogits() const { return finished_.front().logits; }
  int64_t steps() const { return steps_; }

 private:
  struct Text {
    TokenIds ids = {};
    double score = 0;        // the sum of log probabilities; of finished texts divided by the penalized length
    at::Tensor logits = {};  // of finished texts
  };
  struct Continuation {
    double score = 0;
    int64_t parent = 0;
    int64_t token = 0;
  };

  // The likeliest continuations, in descending order; ties in any order.
  void FindContinuations(const at::Tensor& logits);
  bool Ends(const Continuation& one) const;
  void Finish(const at::Tensor& logits);
  // Whether a running text can still beat the worst finished one.
  bool CanImprove() const;

  const BeamOptions options_;
  const int64_t vocab_;
  const int64_t most_new_;
  const TokenIds stop_ids_;
  std::vector<Text> running_;
  std::vector<Text> finished_;  // up to `beams`, in descending order
  std::vector<Continuation> continuations_;
  std::vector<int64_t> parents_;
  std::vector<int64_t> tokens_;
  int64_t steps_ = 0;
  bool can_improve_ = true;
};

}  // namespace roofbench::models
