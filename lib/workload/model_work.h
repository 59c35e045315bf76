// SPDX-License-Identifier: Apache-2.0
// The work of a step in terms of its model.
#pragma once

#include <cstddef>
#include <optional>

#include "lib/workload/dtype.h"

namespace roofbench::workload {

// For rates per token, time to first token, and utilization.
struct ModelWork {
  // Tokens that a training step processes, or that a generation produces after each sequence's first; and the index of
  // the phase that does so (nullopt: the whole step).
  double tokens = 0;
  std::optional<std::size_t> token_phase = {};
  double token_bytes = 0;  // weights, keys and values that must be read to produce them
  double new_tokens = 0;   // of a generation: those tokens and each sequence's first
  // Tokens of the prompts that a generation reads, and the index of that phase, which ends with the first new token.
  double prompt_tokens = 0;
  std::optional<std::size_t> prompt_phase = {};
  double flops = 0;            // by the model's convention (PaLM), not those of the cost
  Dtype dtype = Dtype::kFp32;  // of the products
};

}  // namespace roofbench::workload
