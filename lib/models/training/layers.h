// SPDX-License-Identifier: Apache-2.0
// The layers that transformers share, as functions of tensors that autograd can follow.
#pragma once

#include <ATen/core/Tensor.h>

namespace roofbench::models {

// x / rms(x) · weight along the last dimension; statistics in fp32 whatever the storage (Zhang and Sennrich,
// arXiv:1910.07467).
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon = 1e-5);

// down · (silu(gate · x) ∘ up · x) (Shazeer, arXiv:2002.05202). gate and up are [d_ff, d_model], down is
// [d_model, d_ff].
at::Tensor SwiGlu(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down);

// [batch, tokens, heads · head_dim] -> [batch, heads, tokens, head_dim] (a view), and back.
at::Tensor SplitHeads(const at::Tensor& x, int64_t heads);
at::Tensor MergeHeads(const at::Tensor& x);

enum class Attention { kNaive, kSdpa };

// softmax(q·kᵀ / sqrt(head_dim) + causal mask) · v for q, k, v [batch, heads, tokens, head_dim]; k and v may have fewer
// heads (a divisor: grouped queries) with kSdpa. kNaive writes the scores to memory, as a textbook does; kSdpa is
// LibTorch's fused kernel.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Attention kind);

}  // namespace roofbench::models
