// SPDX-License-Identifier: Apache-2.0
// Attention of a prompt by our own kernel, on a CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

class PromptAttention {
 public:
  // `scale` and `cap` as kernels::Attention has them.
  explicit PromptAttention(float scale = 0, float cap = 0) : scale_(scale), cap_(cap) {}

  // q [batch, heads, tokens, head_dim]; k and v [batch, kv_heads, keys, head_dim] of the same type, fp32 or bf16: those
  // of the tokens, and of all before them. The result is as q, the heads of a token side by side in memory.
  at::Tensor operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const kernels::ParallelFor& parallel_for);

 private:
  float scale_;
  float cap_;
  at::Tensor scratch_;  // kept from layer to layer
};

}  // namespace roofbench
