// SPDX-License-Identifier: Apache-2.0
// Attention of one new token against the keys and values of the tokens before it.
//
//   y = softmax(q · Kᵀ / sqrt(head_dim)) · V   (Vaswani et al., arXiv:1706.03762), in one pass over K and V with a
//   running maximum (Milakov and Gimelshein, arXiv:1805.02867)
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// T: float or Bf16. `group` query heads share the keys and values of one head (Ainslie et al., arXiv:2305.13245), so
// that each is read from memory once for all of them.
template <typename T>
struct DecodeAttention {
  const float* q = nullptr;  // [heads · group, head_dim]
  const T* keys = nullptr;   // head h: [length, head_dim] at keys + h · head_stride
  const T* values = nullptr;
  float* y = nullptr;  // as q
  int64_t heads = 1;   // of keys and values
  int64_t group = 1;
  int64_t head_dim = 0;  // at most kMostHeadDim
  int64_t length = 0;
  int64_t head_stride = 0;
  // ScratchFloats; without it, heads alone are spread over threads.
  float* scratch = nullptr;
};

inline constexpr int64_t kMostHeadDim = 256;

// Heads [range.begin, range.end) on the calling thread. It allocates nothing.
void RunHeads(const DecodeAttention<float>& work, Range range);
void RunHeads(const DecodeAttention<Bf16>& work, Range range);

// For a Run on `threads`: what parts of the keys come to, where there are too few heads for the threads.
template <typename T>
int64_t ScratchFloats(const DecodeAttention<T>& work, int threads);

void Run(const DecodeAttention<float>& work, const ParallelFor& parallel_for);
void Run(const DecodeAttention<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
