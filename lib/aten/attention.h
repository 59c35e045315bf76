// SPDX-License-Identifier: Apache-2.0
// Attention by LibTorch's operations, and by our kernel on tensors.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include <cstdint>
#include <optional>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

// x, or a copy of it whose last dimension is contiguous.
inline at::Tensor WithWholeRows(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

// LibTorch's kernel for at::scaled_dot_product_attention with these arguments, numbered as sdp::SDPBackend: 0 math (a
// composition), 1 flash attention, 2 memory-efficient attention, 3 cuDNN.
inline int64_t AttentionBackend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const std::optional<at::Tensor>& mask, bool causal) {
  return at::_fused_sdp_choice(q, k, v, mask, 0.0, causal, std::nullopt, q.size(1) != k.size(1));
}

// LibTorch's attention without cuDNN, which it prefers on Hopper. cuDNN makes a plan for every number of keys, which
// takes longer than many tokens; and an A100 takes the same kernels as a Hopper without it.
class WithoutCudnnAttention {
 public:
  WithoutCudnnAttention() { at::globalContext().setSDPUseCuDNN(false); }
  WithoutCudnnAttention(const WithoutCudnnAttention&) = delete;
  WithoutCudnnAttention& operator=(const WithoutCudnnAttention&) = delete;
  ~WithoutCudnnAttention() { at::globalContext().setSDPUseCuDNN(before_); }

 private:
  const bool before_ = at::globalContext().userEnabledCuDNNSDP();
};

// softmax(cap · tanh(scale · q·kᵀ / cap)) · v, as in Gemma 2 (arXiv:2408.00118), by LibTorch's operations: none of its
// fused kernels caps the scores.
struct CappedAttention {
  double scale = 1;
  double cap = 1;  // above zero

  // q [batch, heads, tokens, head_dim], k and v [batch, kv_heads, keys, head_dim], all of one type; the result is like
  // q. `mask` [tokens or 1, keys] is true where a token attends. `causal`: token i attends to keys 0 to i. Queries are
  // processed in groups, so that the scores take at most the memory of three fp32 copies for 128 queries.
  at::Tensor operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const std::optional<at::Tensor>& mask, bool causal) const;
};

// Attention of a prompt by our kernel, on a CPU.
class PromptAttention {
 public:
  // `scale` and `cap`: see kernels::Attention.
  explicit PromptAttention(float scale = 0, float cap = 0) : scale_(scale), cap_(cap) {}

  // q [batch, heads, tokens, head_dim]; k and v [batch, kv_heads, keys, head_dim] of the same type, fp32 or bf16, for
  // all earlier tokens and these. The result is like q; the heads of a token are contiguous.
  at::Tensor operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const kernels::ParallelFor& parallel_for);

 private:
  float scale_;
  float cap_;
  at::Tensor scratch_;  // kept from layer to layer
};

}  // namespace roofbench
