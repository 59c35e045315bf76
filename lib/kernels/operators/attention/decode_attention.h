// SPDX-License-Identifier: Apache-2.0
// Attention of one new token against the keys and values of the tokens before it.
//
//   y = softmax(q · Kᵀ / sqrt(head_dim)) · V   (Vaswani et al., arXiv:1706.03762), in one pass over K and V with a
//   running maximum (Milakov and Gimelshein, arXiv:1805.02867); with another scale or a bound of the scores for models
//   that have one
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// A cache in blocks of a few tokens that lie anywhere (Kwon et al., arXiv:2309.06180): a block holds some tokens of all
// heads of a sequence, [heads, tokens, head_dim].
struct Pages {
  const int32_t* blocks = nullptr;  // [sequences, per_sequence]: which block has tokens [i · tokens, (i + 1) · tokens)
  int64_t per_sequence = 0;
  int64_t tokens = 0;  // of a block
  int64_t heads = 1;   // of a sequence
};

// T: float, Bf16, Fp16 or int8_t. `group` query heads share the keys and values of one head (Ainslie et al.,
// arXiv:2305.13245), so that each is read from memory once for all of them.
template <typename T>
struct DecodeAttention {
  const float* q = nullptr;  // [heads · group, head_dim]
  const T* keys = nullptr;   // [heads, capacity, head_dim], or the blocks of `pages` one after the other
  const T* values = nullptr;
  // For int8_t alone: the factor of each row of keys and values, none below zero; [heads, capacity], or as the rows of
  // the blocks.
  const float* key_scales = nullptr;
  const float* value_scales = nullptr;
  float* y = nullptr;  // as q
  int64_t heads = 1;   // of keys and values, of all sequences
  int64_t group = 1;
  int64_t head_dim = 0;  // at most kMostHeadDim
  int64_t length = 0;    // tokens in the cache
  int64_t capacity = 0;  // tokens that the cache has room for
  float scale = 0;       // of scores; 0: 1 / sqrt(head_dim)
  float cap = 0;         // of scores, as SoftCap's; 0: none
  Pages pages = {};
  // ScratchFloats; without it, work is spread over threads by heads alone.
  float* scratch = nullptr;
};

inline constexpr int64_t kMostHeadDim = 256;

// Heads [range.begin, range.end) on the calling thread. Does not allocate.
template <typename T>
void RunHeads(const DecodeAttention<T>& work, Range range);

// The scratch for a Run on `threads`: partial results over the keys, where there are fewer heads than the threads need.
template <typename T>
int64_t ScratchFloats(const DecodeAttention<T>& work, int threads);

template <typename T>
void Run(const DecodeAttention<T>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
