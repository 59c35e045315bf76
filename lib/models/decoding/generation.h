// SPDX-License-Identifier: Apache-2.0
// Reads a prompt and chooses tokens one after another, each from the logits that the last one led to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/models/checkpoint/token_ids.h"
#include "lib/models/decoding/decoder_model.h"
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
    at::Tensor prompt;       // int64 [batch, tokens], on the decoder's device
    int64_t most_new = 1;    // tokens of each sequence
    TokenIds stop_ids = {};  // a single sequence ends with the first of these
    ChoiceOptions choice = {};
    std::optional<SamplingOptions> sampling = {};  // in place of `choice`
    std::shared_ptr<TokenTimes> times = nullptr;   // nullptr: by the host's clock
  };

  // Its cache must have room for the prompt and every new token.
  Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options);

  // `prompt_read` is called once the first token is chosen. Allocates nothing of its own.
  void Run(const std::function<void()>& prompt_read);

  const DecoderModel& decoder() const { return *decoder_; }
  int64_t most_new() const { return options_.most_new; }

  // Of the last run: tokens that each sequence got, their ids in turn, and the logits [batch, vocab] that the last was
  // chosen from.
  int64_t made() const { return made_; }
  TokenIds Ids() const;
  const at::Tensor& logits() const { return logits_; }
  // Prompt and every chosen token but the last, whose logits nobody asked for: before the first run, the prompt.
  at::Tensor Read() const;

  // Seconds of the very first run; and between one token and the next, of all runs after it.
  double first_seconds() const { return first_seconds_; }
  const std::vector<double>& gaps() const { return gaps_; }

 private:
  // Into ids [batch], by logits [batch, vocab].
  void Sample(const at::Tensor& logits, const at::Tensor& ids);
  // Whether nothing follows.
  bool Choose(const at::Tensor& logits);

  std::unique_ptr<DecoderModel> decoder_;
  Options options_;
  TokenChooser chooser_;
  std::optional<DeviceTokenChooser> device_chooser_;  // where the decoder is on a device
  std::optional<TokenSampler> sampler_;               // in place of both
  at::Tensor chosen_;                                 // [most new tokens, batch], on the decoder's device
  at::Tensor ids_;                                    // the same on the host
  int64_t made_ = 0;
  at::Tensor logits_;
  int64_t runs_ = 0;
  double first_seconds_ = 0;
  std::vector<double> gaps_;
};

}  // namespace roofbench::models
