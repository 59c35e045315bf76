// SPDX-License-Identifier: Apache-2.0
#include "lib/models/sampling/token_sampler.h"

#include <algorithm>
#include <utility>

#include "lib/models/sampling/token_choice.h"

namespace roofbench::models {

TokenSampler::TokenSampler(const SamplingOptions& options, int64_t vocab, std::vector<TokenIds> texts)
    : options_(options),
      prompts_(std::move(texts)),
      seen_(prompts_.size(), std::vector<uint8_t>(static_cast<std::size_t>(vocab))) {
  candidates_.reserve(static_cast<std::size_t>(vocab));
  Restart();
}

void TokenSampler::Restart() {
  random_ = kernels::SplitMix64(options_.seed);
  for (std::size_t text = 0; text < prompts_.size(); ++text) {
    std::fill(seen_[text].begin(), seen_[text].end(), 0);
    for (const int64_t token : prompts_[text]) seen_[text].at(static_cast<std::size_t>(token)) = 1;
  }
}

int64_t TokenSampler::Choose(std::size_t text, const float* logits) {
  std::vector<uint8_t>& seen = seen_[text];
  CheckFinite(logits, static_cast<int64_t>(seen.size()));
  Distribution(options_, logits, seen, candidates_);
  const int64_t token = DrawToken(candidates_, random_);
  seen[static_cast<std::size_t>(token)] = 1;
  return token;
}

}  // namespace roofbench::models
