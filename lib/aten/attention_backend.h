// SPDX-License-Identifier: Apache-2.0
// Which of LibTorch's kernels an attention gets.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include <cstdint>
#include <optional>

namespace roofbench {

// Of at::scaled_dot_product_attention with these arguments, as sdp::SDPBackend numbers them: 0 math (a composition), 1
// flash attention, 2 memory-efficient attention, 3 cuDNN.
inline int64_t AttentionBackend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const std::optional<at::Tensor>& mask, bool causal) {
  return at::_fused_sdp_choice(q, k, v, mask, 0.0, causal, std::nullopt, q.size(1) != k.size(1));
}

}  // namespace roofbench
