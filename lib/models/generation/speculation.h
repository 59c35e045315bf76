// SPDX-License-Identifier: Apache-2.0
// Speculative decoding (Leviathan et al., https://arxiv.org/abs/2211.17192), of most likely tokens: a draft, which is
// a faster decoder, guesses a few tokens one after another, and the model reads them all at once. Those that it would
// have chosen itself stay, and one of its own follows, so that the text is the model's whatever the draft guesses.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/models/checkpoint/token_ids.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/sampling/token_choice.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

struct DraftOptions {
  std::shared_ptr<DecoderModel> decoder = nullptr;  // of one sequence, with the model's vocabulary and its room
  int64_t guesses = 1;                              // tokens before each pass of the model, at most
};

class Speculation {
 public:
  using Passes = std::vector<workload::DecoderPass>;

  // `model` has one sequence, and must outlive this.
  Speculation(DraftOptions options, DecoderModel& model, int64_t vocab);

  // The draft reads a prompt [1, n], on the decoders' device; what was read before is gone.
  void ReadPrompt(const at::Tensor& prompt);
  // The tokens that follow a text which ends with `last`, all before which was read: at least one and at most `most`.
  // Valid until the next call.
  const TokenIds& Advance(int64_t last, int64_t most);
  // That token number `index` of those was chosen from, [1, vocab]; valid until the next call of Advance.
  at::Tensor LogitsOf(int64_t index) const { return logits_.narrow(0, index, 1); }

  // Since the prompt: tokens guessed, those of them that the model chose too, and what the decoders read.
  int64_t guessed() const { return guessed_; }
  int64_t accepted() const { return accepted_; }
  const Passes& model_passes() const { return model_passes_; }
  const Passes& draft_passes() const { return draft_passes_; }

 private:
  // Appends `tokens` to a decoder's sequence and returns the logits [n, vocab] after each.
  at::Tensor Read(DecoderModel& decoder, const TokenIds& tokens, Passes& passes) const;
  // The most likely token of each row.
  void ChooseEach(const at::Tensor& logits, TokenIds& chosen);
  // Into piece_, behind the last token of the text.
  void Guess(int64_t guesses);

  const DraftOptions options_;
  DecoderModel& model_;
  TokenChooser chooser_;
  at::TensorOptions type_;  // of token ids
  TokenIds unread_;         // tokens of the text that the draft has not read
  TokenIds piece_;          // that the model reads: the last token, and the guesses
  TokenIds chosen_;
  at::Tensor logits_;
  int64_t guessed_ = 0;
  int64_t accepted_ = 0;
  Passes model_passes_;
  Passes draft_passes_;
};

}  // namespace roofbench::models
