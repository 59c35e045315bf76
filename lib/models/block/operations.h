// SPDX-License-Identifier: Apache-2.0
// Operations of LibTorch in the form that transformers need them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace roofbench::models {

// x / rms(x) · weight along the last dimension; statistics in fp32 whatever the storage (Zhang and Sennrich,
// arXiv:1910.07467).
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon = 1e-5);

// [batch, tokens, heads · head_dim] -> [batch, heads, tokens, head_dim] (a view), and back.
at::Tensor SplitHeads(const at::Tensor& x, int64_t heads);
at::Tensor MergeHeads(const at::Tensor& x);

}  // namespace roofbench::models
