// SPDX-License-Identifier: Apache-2.0
// Which tokens may follow, and how likely each is: the processors of transformers (generation/logits_process.py,
// release 5.23), in the order of its GenerationMixin._get_logits_processor: repetition penalty, temperature, top_k,
// top_p, min_p.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lib/kernels/simd/split_mix.h"

namespace roofbench::models {

// Each at its default leaves the logits as they are.
struct SamplingOptions {
  double temperature = 1;  // 1e-6 to 1e6: logits are divided by it
  int64_t top_k = 0;       // from 0: of so many most likely tokens one is drawn; 0: of all
  double top_p = 1;        // above 0, to 1: of the fewest most likely tokens that have this probability together
  double min_p = 0;        // 0 to 1: of those with at least this share of the most likely one's probability
  // 1e-6 to 1e6: positive logits of tokens that the text has are divided by it, negative ones multiplied.
  double repetition_penalty = 1;
  uint64_t seed = 0;

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

// InvalidArgument with the option, as a flag, and what it may be.
absl::Status CheckSampling(const SamplingOptions& options);

struct Candidate {
  int64_t token = 0;
  double weight = 0;  // its logit, and at the end its probability
};
// Those that are left. Processors take some of them away, never the most likely one, and keep nothing sorted.
using Candidates = std::vector<Candidate>;

// `seen` [vocab] is not 0 for the tokens of the text, each of which counts once.
void PenaliseRepetition(Candidates& candidates, const std::vector<uint8_t>& seen, double penalty);
void DivideByTemperature(Candidates& candidates, double temperature);
// What is as likely as the last of them stays, too.
void KeepTopK(Candidates& candidates, int64_t k);
// Of equally likely ones those of the lowest numbers stay.
void KeepTopP(Candidates& candidates, double p);
void KeepMinP(Candidates& candidates, double p);

// All of them in turn, and the softmax of what is left, by finite `logits` [seen.size()]. The memory of `candidates` is
// used again.
void Distribution(const SamplingOptions& options, const float* logits, const std::vector<uint8_t>& seen,
                  Candidates& candidates);

// One of the tokens of a distribution, each as often as its probability says.
int64_t DrawToken(const Candidates& distribution, kernels::SplitMix64& random);

}  // namespace roofbench::models
