// SPDX-License-Identifier: Apache-2.0
// Keys and values of the tokens that a decoder has read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// Some tokens of one of the sequences.
struct Piece {
  int64_t sequence = 0;
  int64_t tokens = 1;
};

// On the device and in the type of `options`, or in 8 bits. One allocation for `capacity` tokens: [layers, batch,
// kv_heads, capacity, head_dim], so that a head's keys lie side by side.
struct KvCache {
  KvCache(const workload::Transformer& shape, int64_t batch, int64_t capacity, const at::TensorOptions& options,
          bool in_8_bits = false);

  at::Tensor keys;
  at::Tensor values;
  // Of a cache in 8 bits: the factor of each key and value, fp32 [layers, batch, kv_heads, capacity]. Undefined of
  // others.
  at::Tensor key_scales;
  at::Tensor value_scales;
  at::TensorOptions options;  // of what is written and read
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
  // Sequence i becomes what sequence from[i] was; all are of one length.
  void Reorder(const std::vector<int64_t>& from);

  bool Is8Bits() const { return key_scales.defined(); }

  // `tokens` tokens from `begin` on of `sequences` sequences from `first` on, in a layer.
  struct Part {
    int64_t layer = 0;
    int64_t first = 0;
    int64_t sequences = 1;
    int64_t begin = 0;
    int64_t tokens = 1;
  };
  // Keys and values [sequences, kv_heads, tokens, head_dim].
  void Write(const Part& part, const at::Tensor& k, const at::Tensor& v) const;
  // The same as they are kept: where they lie, or, of 8 bits, made again.
  std::pair<at::Tensor, at::Tensor> Read(const Part& part) const;
};

// What becomes of a key or value in a cache of 8 bits: codes = x / scale, rounded to nearest even, -127…127. Returns
// the scale, max|x| / 127; a NaN, and codes of 0, where x is not finite. x [dim].
float RoundTo8Bits(const float* x, int64_t dim, int8_t* codes);

}  // namespace roofbench::models
