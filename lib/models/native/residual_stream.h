// SPDX-License-Identifier: Apache-2.0
// What the layers of a native decoder add to, in fp32: a vector for each token of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::models {

// Inside a parallel region. The threads share one, to which each adds its rows of a product, or have one each: where
// what a block leaves is normed before it is added, a thread needs all of it, and with a residual of its own no further
// waiting.
class ResidualStream {
 public:
  // Of up to `tokens` tokens of `d` elements.
  ResidualStream(int64_t tokens, int64_t d, float epsilon, int threads, bool is_own);

  bool is_own() const { return !normed_.empty(); }
  float* of(const kernels::Worker& worker) { return own_[is_own() ? Index(worker) : 0].data(); }

  // Begins with rows ids[0] … ids[tokens - 1] of `table`, times `scale`. The threads wait where they share it. T: float
  // or Bf16.
  template <typename T>
  void Begin(const kernels::Worker& worker, const T* table, const int64_t* ids, int64_t tokens, float scale);

  // `to` = the norm of each token, by a weight in fp32. T: float or Bf16.
  template <typename T>
  void Norm(const kernels::Worker& worker, const at::Tensor& weight, int64_t tokens, T* to);

  // Adds the norm of each of the vectors `added` to the thread's own.
  void AddNormed(const kernels::Worker& worker, const at::Tensor& weight, int64_t tokens, const float* added);

 private:
  static std::size_t Index(const kernels::Worker& worker) { return static_cast<std::size_t>(worker.index()); }

  const int64_t d_;
  const float epsilon_;
  std::vector<std::vector<float>> own_;     // one, or one a thread
  std::vector<std::vector<float>> normed_;  // one a thread, where each has its own
};

}  // namespace roofbench::models
