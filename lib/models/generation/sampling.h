// SPDX-License-Identifier: Apache-2.0
// Choosing the next token from logits: the most likely ones (on the host and on a device), or by samplers with all
// options of transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lib/kernels/simd/split_mix.h"
#include "lib/models/generation/token_ids.h"

namespace roofbench::models {

// Throws c10::Error if one of `count` logits is an infinity or a NaN.
void CheckFinite(const float* logits, int64_t count);

struct ChoiceOptions {
  int64_t top_k = 1;  // number of most likely tokens to draw from; 1: greedy
  double temperature = 1;
  uint64_t seed = 0;
};

// Use one chooser for each generation: draws depend on the seed and on earlier draws.
class TokenChooser {
 public:
  // Allocates for Choose.
  TokenChooser(const ChoiceOptions& options, int64_t vocab);

  // Starts over.
  void Restart() { random_ = kernels::SplitMix64(options_.seed); }

  // The index of one of `logits` [vocab]; of equal ones the first is the more likely. Does not allocate. Throws
  // c10::Error if one of them is an infinity or a NaN.
  int64_t Choose(const float* logits);

 private:
  const ChoiceOptions options_;
  kernels::SplitMix64 random_;
  std::vector<int64_t> order_;
  std::vector<double> weights_;
};

// The same on a device, asynchronously. The tokens differ only for ties, and for draws within an fp32 rounding of the
// next token.
class DeviceTokenChooser {
 public:
  // For `most` tokens of each of `batch` sequences; prepares all draws.
  DeviceTokenChooser(const ChoiceOptions& options, int64_t most, int64_t batch, at::Device device);

  // Sets `ids` [batch] to token `index` of each sequence by logits [batch, vocab]; with `sequences` (int64 on the
  // device), ids and logits are those of these sequences.
  void Choose(const at::Tensor& logits, int64_t index, const at::Tensor& ids,
              const std::optional<at::Tensor>& sequences = {});
  // Throws c10::Error if one of the logits of the first `count` tokens was an infinity or a NaN. Synchronizes.
  void Check(int64_t count) const;

 private:
  const ChoiceOptions options_;
  at::Tensor draws_;  // [most, batch]
  at::Tensor sums_;   // [most], of the logits
};

// The processors of transformers (generation/logits_process.py, release 5.23), in the order of its
// GenerationMixin._get_logits_processor: repetition penalty, temperature, top_k, top_p, min_p. Defaults do not change
// the logits.
struct SamplingOptions {
  double temperature = 1;  // 1e-6 to 1e6: logits are divided by it
  int64_t top_k = 0;       // from 0: number of most likely tokens to keep; 0: all
  double top_p = 1;        // above 0, to 1: keeps the fewest most likely tokens with this total probability
  double min_p = 0;        // 0 to 1: keeps tokens with at least this share of the largest probability
  // 1e-6 to 1e6: divides positive logits of tokens in the text, and multiplies negative ones.
  double repetition_penalty = 1;
  uint64_t seed = 0;

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

// InvalidArgument with the option, as a flag, and its range.
absl::Status CheckSampling(const SamplingOptions& options);

struct Candidate {
  int64_t token = 0;
  double weight = 0;  // the logit, finally the probability
};
// The remaining tokens, in any order. Processors never remove the most likely one.
using Candidates = std::vector<Candidate>;

// `seen` [vocab] is nonzero for the tokens of the text.
void PenalizeRepetition(Candidates& candidates, const std::vector<uint8_t>& seen, double penalty);
void DivideByTemperature(Candidates& candidates, double temperature);
// Also keeps tokens as likely as the last of them.
void KeepTopK(Candidates& candidates, int64_t k);
// Among equally likely tokens it keeps those with the lowest numbers.
void KeepTopP(Candidates& candidates, double p);
void KeepMinP(Candidates& candidates, double p);

// Applies all of them to finite `logits` [seen.size()], then the softmax. Reuses the memory of `candidates`.
void Distribution(const SamplingOptions& options, const float* logits, const std::vector<uint8_t>& seen,
                  Candidates& candidates);

// Draws a token by its probability.
int64_t DrawToken(const Candidates& distribution, kernels::SplitMix64& random);

// Draws the tokens of several texts. Draws depend on the seed, on earlier draws, and, with a repetition penalty, on the
// texts.
class TokenSampler {
 public:
  // `texts`: the prompts, with tokens of the vocabulary. Allocates for Choose.
  TokenSampler(const SamplingOptions& options, int64_t vocab, std::vector<TokenIds> texts);

  // Starts over.
  void Restart();

  // Appends a token to text number `text` by logits [vocab], and returns it. Throws c10::Error if one of them is an
  // infinity or a NaN.
  int64_t Choose(std::size_t text, const float* logits);

 private:
  const SamplingOptions options_;
  const std::vector<TokenIds> prompts_;
  kernels::SplitMix64 random_;
  std::vector<std::vector<uint8_t>> seen_;  // [texts][vocab]
  Candidates candidates_;
};

}  // namespace roofbench::models
