// SPDX-License-Identifier: Apache-2.0
// How much a step of a native decoder takes at once, and what each of its threads has for itself meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/threading/parallel_for.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/native/expert_plan.h"

namespace roofbench::models {

inline std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// The sizes of a decoder and of the tokens that it takes in a step at most.
struct Extents : DecoderSizes {
  Extents(const workload::Decoder& shape, int64_t most_tokens)
      : DecoderSizes(shape), tokens(most_tokens), slots(most_tokens * active_experts) {}

  int64_t tokens;
  int64_t slots;  // pairs of a token and an expert
};

// What a thread has for itself. Every thread computes the norms of whole tokens, which costs less than to wait for one
// that does.
template <typename T>
struct Scratch {
  std::vector<T> x = {};         // the vectors that a product reads: [tokens, d]
  std::vector<T> gathered = {};  // those of an expert's tokens
  ExpertPlan plan;
  std::vector<kernels::Range> columns = {};  // of a hidden layer, that fell to this thread
};

}  // namespace roofbench::models
