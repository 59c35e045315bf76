// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench::models {

struct ChoiceOptions {
  int64_t top_k = 1;  // of how many most likely tokens one is drawn; 1: always the most likely
  double temperature = 1;
  uint64_t seed = 0;
};

// One chooser a generation: what it draws depends on the seed and on the draws before.
class TokenChooser {
 public:
  // Allocates what Choose needs.
  TokenChooser(const ChoiceOptions& options, int64_t vocab);

  // Starts over, as if newly made.
  void Restart() { random_ = kernels::SplitMix64(options_.seed); }

  // The index of one of `logits` [vocab]. Of equal ones the first counts as the more likely. Allocates nothing. Throws
  // c10::Error where one of them is an infinity or a NaN.
  int64_t Choose(const float* logits);

 private:
  const ChoiceOptions options_;
  kernels::SplitMix64 random_;
  std::vector<int64_t> order_;
  std::vector<double> weights_;
};

}  // namespace roofbench::models
