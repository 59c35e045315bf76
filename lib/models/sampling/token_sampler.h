// SPDX-License-Identifier: Apache-2.0
// Draws the tokens of texts that are written side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/kernels/simd/split_mix.h"
#include "lib/models/checkpoint/token_ids.h"
#include "lib/models/sampling/sampling.h"

namespace roofbench::models {

// What it draws depends on the seed, on the draws before, and, with a repetition penalty, on the texts.
class TokenSampler {
 public:
  // `texts`: the prompts, whose tokens lie in the vocabulary. Allocates what Choose needs.
  TokenSampler(const SamplingOptions& options, int64_t vocab, std::vector<TokenIds> texts);

  // Starts over, as if newly made.
  void Restart();

  // The token that follows the text of this number, of which it is a part from then on, by logits [vocab]. Throws
  // c10::Error where one of them is an infinity or a NaN.
  int64_t Choose(std::size_t text, const float* logits);

 private:
  const SamplingOptions options_;
  const std::vector<TokenIds> prompts_;
  kernels::SplitMix64 random_;
  std::vector<std::vector<uint8_t>> seen_;  // [texts][vocab]
  Candidates candidates_;
};

}  // namespace roofbench::models
