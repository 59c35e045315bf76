// SPDX-License-Identifier: Apache-2.0
// Text generation: reads prompts, and chooses one token after another from the logits of the previous one. Sequences
// that have ended take no part in later steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/generation/beam_search.h"
#include "lib/models/generation/sampling.h"
#include "lib/models/generation/speculation.h"
#include "lib/models/generation/token_ids.h"

namespace roofbench::models {

// Records when tokens are chosen.
class TokenTimes {
 public:
  virtual ~TokenTimes() = default;
  // Forgets the tokens.
  virtual void Restart() = 0;
  // A token is chosen now; on an asynchronous device, when its queue reaches this call.
  virtual void Mark() = 0;
  // Appends the seconds between tokens. The device must have passed the last one.
  virtual void Gaps(std::vector<double>& seconds) const = 0;
};

// Runs are repeatable, with the same prompt and draws. A GPU chooses the tokens itself, and the host waits once, at the
// end; or for every token, with stop_ids, or with `sampling`, which runs on the host.
class Generation {
 public:
  struct Options {
    at::Tensor prompt;                  // int64 [batch, tokens], on the decoder's device
    std::vector<int64_t> lengths = {};  // of ragged prompts, which `prompt` contains one after another, [sum]
    int64_t most_new = 1;               // tokens of each sequence
    TokenIds stop_ids = {};             // each sequence ends with the first of these
    ChoiceOptions choice = {};
    std::optional<SamplingOptions> sampling = {};  // instead of `choice`
    // More than one beam: instead of both, for a single prompt. The decoder has a sequence for each beam.
    BeamOptions beams = {};
    // With a decoder: it guesses the most likely tokens of a single prompt, and `times` records the model's passes.
    DraftOptions draft = {};
    std::shared_ptr<TokenTimes> times = nullptr;  // nullptr: the host's clock
  };

  // Its cache must have room for the longest prompt and every new token.
  Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options);

  // Calls `prompt_read` when the first token is chosen. Does not allocate, except in a search. `measurement`: of which
  // the run is a sample; 0: of none.
  void Run(const std::function<void()>& prompt_read, int64_t measurement = 0);

  const DecoderModel& decoder() const { return *decoder_; }
  int64_t most_new() const { return options_.most_new; }

  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  // Tokens of each prompt.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  // In the last run: the tokens of the longest sequence (the steps of a search), the tokens of each sequence, and
  // whether each ended with a stop id.
  int64_t steps() const { return steps_; }
  const std::vector<int64_t>& made() const { return made_of_; }
  bool HasStopped(int64_t sequence) const;
  // The new tokens of a sequence, and the logits [batch, vocab] of the last ones.
  TokenIds Ids(int64_t sequence) const;
  const at::Tensor& logits() const { return logits_; }
  bool searches() const { return search_.has_value(); }
  // nullptr without a draft.
  const Speculation* speculation() const { return speculation_ ? &*speculation_ : nullptr; }
  // All tokens that the decoder has read: each prompt and its new tokens except the last. [batch, n] if all prompts
  // and all texts have one length, otherwise a [1, n] for each.
  std::vector<at::Tensor> Read() const;

  // Seconds of the first run, and between tokens in the samples of the last measurement.
  double first_seconds() const { return first_seconds_; }
  const std::vector<double>& gaps() const { return gaps_; }
  // The mean sum of the gaps of a sample.
  double gap_seconds() const;

 private:
  void Generate(const std::function<void()>& prompt_read);
  bool IsStop(int64_t id) const;
  const at::Tensor& ReadPrompts();
  void SearchBeams(const std::function<void()>& prompt_read);
  void Speculate(const std::function<void()>& prompt_read);
  // Appends the chosen tokens.
  const at::Tensor& Step();
  // Into ids [active], by logits [active, vocab].
  void Sample(const at::Tensor& logits, const at::Tensor& ids);
  void Choose(const at::Tensor& logits);
  // Ends the sequences whose last token, of `ids` [active], is a stop id.
  void EndStopped(const at::Tensor& logits, const at::Tensor& ids);
  void SetActive(std::vector<int64_t> sequences);
  // Stores the logits from which the active sequences' last tokens were chosen.
  void Keep(const at::Tensor& logits);

  std::unique_ptr<DecoderModel> decoder_;
  Options options_;
  TokenChooser chooser_;
  std::optional<DeviceTokenChooser> device_chooser_;  // if the decoder is on a device
  std::optional<TokenSampler> sampler_;               // instead of both
  std::optional<BeamSearch> search_;                  // instead of all
  std::optional<Speculation> speculation_;            // on the host, too
  const std::vector<int64_t> lengths_;                // of the prompts
  at::Tensor chosen_;                                 // [most new tokens, batch], on the decoder's device
  at::Tensor ids_;                                    // the same on the host
  at::Tensor some_;                                   // [batch]: for the tokens of some sequences
  std::vector<int64_t> active_;                       // sequences that have not ended
  at::Tensor active_ids_;                             // the same, on the decoder's device
  at::Tensor next_;                                   // [active], their last tokens
  int64_t steps_ = 0;                                 // tokens of those that have not ended
  std::vector<int64_t> made_of_;
  at::Tensor kept_;  // [batch, vocab], as logits
  at::Tensor logits_;
  int64_t measurement_ = 0;  // the last
  int64_t samples_ = 0;      // of it
  double first_seconds_ = 0;
  std::vector<double> gaps_;
};

}  // namespace roofbench::models
