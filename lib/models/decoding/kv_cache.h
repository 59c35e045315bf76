// SPDX-License-Identifier: Apache-2.0
// The keys and values of the tokens that a decoder has read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// A number of tokens of one sequence.
struct Piece {
  int64_t sequence = 0;
  int64_t tokens = 1;
};

// [layers, batch, kv_heads, capacity, head_dim], so that the keys of a head are contiguous, with the device and type of
// `options`, or in 8 bits.
struct KvCache {
  KvCache(const workload::Transformer& shape, int64_t batch, int64_t capacity, const at::TensorOptions& options,
          bool in_8_bits = false);

  at::Tensor keys;
  at::Tensor values;
  // The factors of an 8-bit cache, fp32 [layers, batch, kv_heads, capacity]; otherwise undefined.
  at::Tensor key_scales;
  at::Tensor value_scales;
  at::TensorOptions options;  // of written and read tensors
  int64_t capacity;
  std::vector<int64_t> lengths;  // tokens of each sequence

  // The length of all sequences, which must be equal.
  int64_t length() const;
  void SetLength(int64_t length);
  // Throws c10::Error if `tokens` more after `before` do not fit; Check also if the pieces do not have `tokens` tokens
  // in all, or do not belong to different sequences in ascending order.
  void CheckRoom(int64_t before, int64_t tokens) const;
  void Check(const std::vector<Piece>& pieces, int64_t tokens) const;
  void FillRandom(int64_t new_length, uint64_t seed);
  // Sequence i becomes a copy of sequence from[i]; all have one length.
  void Reorder(const std::vector<int64_t>& from);

  bool Is8Bits() const { return key_scales.defined(); }
  // A view of the cache of some sequences.
  KvCache Of(int64_t first, int64_t sequences) const;
  // DataLoss unless the first `tokens` tokens of this 8-bit cache are those of `exact`, which is not in 8 bits, rounded
  // to nearest: within half a step, and an error of `tolerance` · (|exact| + its root mean square) before rounding.
  absl::Status CheckRounding(const KvCache& exact, int64_t tokens, double tolerance) const;
  // The smallest tolerance, in these units, between this cache and `other`, neither of which is in 8 bits.
  double LargestChange(const KvCache& other, int64_t tokens) const;

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
  // The same from the cache: views, or, from 8 bits, dequantized copies.
  std::pair<at::Tensor, at::Tensor> Read(const Part& part) const;
};

// Rounds a key or value x [dim] for an 8-bit cache: codes = x / scale, to nearest even, -127…127. Returns the scale,
// max|x| / 127; NaN, with codes of 0, if x is not finite.
float RoundTo8Bits(const float* x, int64_t dim, int8_t* codes);

}  // namespace roofbench::models
