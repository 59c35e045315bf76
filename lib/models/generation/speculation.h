// SPDX-License-Identifier: Apache-2.0
// Greedy speculative decoding (Leviathan et al., https://arxiv.org/abs/2211.17192): a draft, which is a faster decoder,
// guesses a few tokens one by one, and the model reads them all at once. The guesses that the model would have chosen
// are kept, and a token of the model follows, so that the text does not depend on the draft.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/generation/sampling.h"
#include "lib/models/generation/token_ids.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

struct DraftOptions {
  std::shared_ptr<DecoderModel> decoder = nullptr;  // of one sequence, with the model's vocabulary and its room
  int64_t guesses = 1;                              // the most tokens before each pass of the model
};

class Speculation {
 public:
  using Passes = std::vector<workload::DecoderPass>;

  // `model` has one sequence, and must outlive this.
  Speculation(DraftOptions options, DecoderModel& model, int64_t vocab);

  // Restarts the draft with a prompt [1, n] on the decoders' device.
  void ReadPrompt(const at::Tensor& prompt);
  // The 1 to `most` tokens after `last`, the last token of a text that has been read up to it. Valid until the next
  // call.
  const TokenIds& Advance(int64_t last, int64_t most);
  // The logits [1, vocab] of token `index` of those; valid until the next call of Advance.
  at::Tensor LogitsOf(int64_t index) const { return logits_.narrow(0, index, 1); }

  // Since the prompt: guessed tokens, accepted ones, and the passes of both decoders.
  int64_t guessed() const { return guessed_; }
  int64_t accepted() const { return accepted_; }
  const Passes& model_passes() const { return model_passes_; }
  const Passes& draft_passes() const { return draft_passes_; }

 private:
  // Appends `tokens` to a decoder's sequence and returns the logits [n, vocab] after each.
  at::Tensor Read(DecoderModel& decoder, const TokenIds& tokens, Passes& passes) const;
  // The most likely token of each row.
  void ChooseEach(const at::Tensor& logits, TokenIds& chosen);
  // Appends guesses to piece_.
  void Guess(int64_t guesses);

  const DraftOptions options_;
  DecoderModel& model_;
  TokenChooser chooser_;
  at::TensorOptions type_;  // of token ids
  TokenIds unread_;         // tokens of the text that the draft has not read
  TokenIds piece_;          // the model's input: the last token and the guesses
  TokenIds chosen_;
  at::Tensor logits_;
  int64_t guessed_ = 0;
  int64_t accepted_ = 0;
  Passes model_passes_;
  Passes draft_passes_;
};

}  // namespace roofbench::models
