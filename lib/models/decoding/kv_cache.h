// SPDX-License-Identifier: Apache-2.0
// Keys and values of the tokens that a decoder has read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// Some tokens of one of the sequences.
struct Piece {
  int64_t sequence = 0;
  int64_t tokens = 1;
};

// On the device and in the type of `options`. One allocation for `capacity` tokens: [layers, batch, kv_heads, capacity,
// head_dim], so that a head's keys lie side by side.
struct KvCache {
  KvCache(const workload::Transformer& shape, int64_t batch, int64_t capacity, const at::TensorOptions& options);

  at::Tensor keys;
  at::Tensor values;
  int64_t capacity;
  std::vector<int64_t> lengths;  // tokens of each sequence

  // That of all sequences, which must be of one.
  int64_t length() const;
  void SetLength(int64_t length);
  // Throws c10::Error where `tokens` more after `before` do not fit; and where pieces that say they have `tokens`
  // tokens in all do not, or do not fit, or are not of different sequences in ascending order.
  void CheckRoom(int64_t before, int64_t tokens) const;
  void Check(const std::vector<Piece>& pieces, int64_t tokens) const;
  void FillRandom(int64_t new_length, uint64_t seed);
};

}  // namespace roofbench::models
