// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench::models {

// Throws c10::Error where one of `count` logits is an infinity or a NaN.
void CheckFinite(const float* logits, int64_t count);

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

// The same on a device, without a wait for it: of the same logits it chooses the same tokens, but for ties and for
// draws within a rounding of fp32 from the next token.
class DeviceTokenChooser {
 public:
  // For `most` tokens of each of `batch` sequences: everything that will be drawn is drawn now.
  DeviceTokenChooser(const ChoiceOptions& options, int64_t most, int64_t batch, at::Device device);

  // Leaves in `ids` [batch] the token number `index` of each sequence, by logits [batch, vocab]; or of `sequences`
  // alone (int64 on the device), of which ids and logits then are.
  void Choose(const at::Tensor& logits, int64_t index, const at::Tensor& ids,
              const std::optional<at::Tensor>& sequences = {});
  // Throws c10::Error where one of the logits of the first `count` tokens was an infinity or a NaN. Waits.
  void Check(int64_t count) const;

 private:
  const ChoiceOptions options_;
  at::Tensor draws_;  // [most, batch]
  at::Tensor sums_;   // [most], of the logits
};

}  // namespace roofbench::models
