// SPDX-License-Identifier: Apache-2.0
// Attention of one token, or of a few, of each of some sequences, each at its own length, through a cache: with the
// norms of heads, the rotation, and what is added to the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/decoding/kv_cache.h"
#include "lib/models/decoding/rotary_table.h"

namespace roofbench::models {

// T: float or Bf16, of the cache, which can also be in 8 bits, and of what is left.
template <typename T>
struct TokenAttention {
  const DecoderSizes& n;
  float epsilon;       // of the norms of heads
  int64_t window = 0;  // keys that a token attends to at most; 0: all before it
  float scale = 0;     // of scores, and their cap, as kernels::DecodeAttention has them
  float cap = 0;
  const RotaryTable& rope;
  const KvCache& cache;
  const std::vector<int64_t>& sequences;  // of the cache
  int64_t each = 1;                       // tokens of each of them
  int64_t layer = 0;
  const at::Tensor& query_norm;  // fp32 [head_dim]; undefined: there is none
  const at::Tensor& key_norm;
  float* qkv = nullptr;  // [sequences.size(), each, heads + 2 · kv_heads, head_dim]; is overwritten
  float* y = nullptr;    // [sequences.size(), each, heads, head_dim]
  T* rounded = nullptr;  // as y
};

// The pairs of a sequence and a head of keys, [sequences.size() · kv_heads], from range.begin up to range.end, on the
// calling thread. It allocates nothing.
template <typename T>
void RunItems(const TokenAttention<T>& work, kernels::Range range);

extern template void RunItems(const TokenAttention<float>&, kernels::Range);
extern template void RunItems(const TokenAttention<kernels::Bf16>&, kernels::Range);

}  // namespace roofbench::models
