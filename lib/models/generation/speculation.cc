// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/speculation.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "lib/observe/ranges.h"

namespace roofbench::models {

Speculation::Speculation(DraftOptions options, DecoderModel& model, int64_t vocab)
    : options_(std::move(options)), model_(model), chooser_({}, vocab) {
  TORCH_CHECK(options_.decoder != nullptr && options_.guesses > 0, "a draft guesses at least one token");
}

void Speculation::ReadPrompt(const at::Tensor& prompt) {
  type_ = prompt.options();
  options_.decoder->Truncate(0);
  options_.decoder->Append(prompt);
  unread_.clear();
  model_passes_.clear();
  draft_passes_.clear();
  guessed_ = accepted_ = 0;
}

at::Tensor Speculation::Read(DecoderModel& decoder, const TokenIds& tokens, Passes& passes) const {
  const at::Tensor ids = at::tensor(tokens, type_);
  passes.push_back({static_cast<double>(decoder.length()), static_cast<double>(ids.numel())});
  // AppendOne can be recorded.
  return ids.numel() == 1 ? decoder.AppendOne(ids) : decoder.AppendAll(ids.unsqueeze(0))[0];
}

void Speculation::ChooseEach(const at::Tensor& logits, TokenIds& chosen) {
  const at::Tensor on_host = logits.to(at::kCPU).contiguous();
  chosen.clear();
  for (int64_t row = 0; row < on_host.size(0); ++row) {
    chosen.push_back(chooser_.Choose(on_host.const_data_ptr<float>() + row * on_host.size(1)));
  }
}

void Speculation::Guess(int64_t guesses) {
  const observe::Range range("guess");
  for (int64_t i = 0; i < guesses; ++i) {
    const at::Tensor logits = Read(*options_.decoder, unread_, draft_passes_);
    ChooseEach(logits.narrow(0, logits.size(0) - 1, 1), unread_);
    piece_.push_back(unread_.front());
  }
}

const TokenIds& Speculation::Advance(int64_t last, int64_t most) {
  const int64_t before = model_.length();
  const int64_t guesses = std::min(options_.guesses, most - 1);
  unread_.push_back(last);
  piece_ = {last};
  Guess(guesses);
  const observe::Range range("verify");
  logits_ = Read(model_, piece_, model_passes_);
  ChooseEach(logits_, chosen_);
  // chosen_[i] is the model's token for the guess piece_[i + 1].
  const auto kept = std::mismatch(piece_.begin() + 1, piece_.end(), chosen_.begin()).first - (piece_.begin() + 1);
  chosen_.resize(static_cast<std::size_t>(kept) + 1);
  guessed_ += guesses;
  accepted_ += kept;
  // Keep what is part of the text. The draft has not read its last guess.
  model_.Truncate(before + kept + 1);
  options_.decoder->Truncate(std::min(before + kept + 1, options_.decoder->length()));
  unread_.clear();
  if (kept > 0 && kept == guesses) unread_.push_back(piece_.back());
  return chosen_;
}

}  // namespace roofbench::models
