// SPDX-License-Identifier: Apache-2.0
// Reads prompts and chooses tokens one after another, each from the logits that the last one led to. Sequences that
// ended take no part in what follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/models/checkpoint/token_ids.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/generation/speculation.h"
#include "lib/models/sampling/beam_search.h"
#include "lib/models/sampling/token_choice.h"
#include "lib/models/sampling/token_sampler.h"

namespace roofbench::models {

// When tokens were chosen.
class TokenTimes {
 public:
  virtual ~TokenTimes() = default;
  // Forgets the tokens.
  virtual void Restart() = 0;
  // A token is chosen now: on a device that runs behind the host, when it comes here.
  virtual void Mark() = 0;
  // Appends the seconds between one token and the next. The device has passed the last one.
  virtual void Gaps(std::vector<double>& seconds) const = 0;
};

// It can be run again: the same prompt, the same draws. On a GPU the tokens are chosen there, and the host waits for it
// once, at the end; with stop_ids for every token, and with `sampling`, which is done on the host.
class Generation {
 public:
  struct Options {
    at::Tensor prompt;                  // int64 [batch, tokens], on the decoder's device
    std::vector<int64_t> lengths = {};  // of prompts that are not of one length: `prompt` has them in turn, [sum]
    int64_t most_new = 1;               // tokens of each sequence
    TokenIds stop_ids = {};             // each sequence ends with the first of these
    ChoiceOptions choice = {};
    std::optional<SamplingOptions> sampling = {};  // in place of `choice`
    // More than one beam: of a single prompt, in place of both. The decoder has a sequence for each.
    BeamOptions beams = {};
    // With a decoder: it guesses the most likely tokens of a single prompt, and `times` tell of passes of the model.
    DraftOptions draft = {};
    std::shared_ptr<TokenTimes> times = nullptr;  // nullptr: by the host's clock
  };

  // Its cache must have room for the longest prompt and every new token.
  Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options);

  // `prompt_read` is called once the first token is chosen. Allocates nothing of its own, but for a search.
  void Run(const std::function<void()>& prompt_read);

  const DecoderModel& decoder() const { return *decoder_; }
  int64_t most_new() const { return options_.most_new; }

  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  // Tokens of each prompt.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  // Of the last run: tokens that the longest sequence got (of a search, its steps), that each one got, and whether it
  // ended with a stop id.
  int64_t steps() const { return steps_; }
  const std::vector<int64_t>& made() const { return made_of_; }
  bool HasStopped(int64_t sequence) const;
  // The new tokens of a sequence, and the logits [batch, vocab] that the last of each was chosen from.
  TokenIds Ids(int64_t sequence) const;
  const at::Tensor& logits() const { return logits_; }
  // Of a text with a draft; nullptr: there is none.
  const Speculation* speculation() const { return speculation_ ? &*speculation_ : nullptr; }
  // Each prompt and every token chosen after it but the last, whose logits nobody asked for: before the first run, the
  // prompt. [batch, n] where all are of one length, otherwise one [1, n] after another.
  std::vector<at::Tensor> Read() const;

  // Seconds of the very first run; and between one token and the next, of all runs after it.
  double first_seconds() const { return first_seconds_; }
  const std::vector<double>& gaps() const { return gaps_; }
  // Those of one run after the very first, in the mean.
  double gap_seconds() const;

 private:
  bool IsStop(int64_t id) const;
  const at::Tensor& ReadPrompts();
  void SearchBeams(const std::function<void()>& prompt_read);
  void Speculate(const std::function<void()>& prompt_read);
  // Appends what was chosen.
  const at::Tensor& Step();
  // Into ids [active], by logits [active, vocab].
  void Sample(const at::Tensor& logits, const at::Tensor& ids);
  void Choose(const at::Tensor& logits);
  // Takes the sequences away whose last token is a stop id, one of `ids` [active].
  void EndStopped(const at::Tensor& logits, const at::Tensor& ids);
  void SetActive(std::vector<int64_t> sequences);
  // That the last tokens of sequences that are at an end now were chosen from.
  void Keep(const at::Tensor& logits);

  std::unique_ptr<DecoderModel> decoder_;
  Options options_;
  TokenChooser chooser_;
  std::optional<DeviceTokenChooser> device_chooser_;  // where the decoder is on a device
  std::optional<TokenSampler> sampler_;               // in place of both
  std::optional<BeamSearch> search_;                  // in place of all
  std::optional<Speculation> speculation_;            // on the host, too
  const std::vector<int64_t> lengths_;                // of the prompts
  at::Tensor chosen_;                                 // [most new tokens, batch], on the decoder's device
  at::Tensor ids_;                                    // the same on the host
  at::Tensor some_;                                   // [batch]: where those of some sequences are chosen
  std::vector<int64_t> active_;                       // sequences that have not ended
  at::Tensor active_ids_;                             // the same, on the decoder's device
  at::Tensor next_;                                   // [active], their last tokens
  int64_t steps_ = 0;                                 // tokens of those that have not ended
  std::vector<int64_t> made_of_;
  at::Tensor kept_;  // [batch, vocab], as logits
  at::Tensor logits_;
  int64_t runs_ = 0;
  double first_seconds_ = 0;
  std::vector<double> gaps_;
};

}  // namespace roofbench::models
