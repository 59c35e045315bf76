// SPDX-License-Identifier: Apache-2.0
// Attention whose scores have a bound, by LibTorch's operations: none of its fused kernels has one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace roofbench {

// softmax(cap · tanh(scale · q·kᵀ / cap)) · v, as Gemma 2 has it (arXiv:2408.00118).
struct CappedAttention {
  double scale = 1;
  double cap = 1;  // above zero

  // q [batch, heads, tokens, head_dim], k and v [batch, kv_heads, keys, head_dim], of one type; the result is as q.
  // `mask` [tokens or 1, keys]: true where a token attends; `causal`: each token to as many keys as it comes after, and
  // itself. Some queries at a time, so that the scores take no more memory than those of 128 queries in fp32, thrice.
  at::Tensor operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const std::optional<at::Tensor>& mask, bool causal) const;
};

}  // namespace roofbench
