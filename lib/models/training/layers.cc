// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/layers.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "lib/observe/ranges.h"

namespace roofbench::models {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

at::Tensor SwiGlu(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down) {
  return at::linear(at::silu(at::linear(x, gate)).mul(at::linear(x, up)), down);
}

at::Tensor SplitHeads(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

at::Tensor MergeHeads(const at::Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1}); }

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Attention kind) {
  if (kind == Attention::kSdpa) {
    return at::scaled_dot_product_attention(q, k, v, std::nullopt, 0.0, /*is_causal=*/true, std::nullopt,
                                            /*enable_gqa=*/q.size(1) != k.size(1));
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor future = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).triu(1);
  observe::Range range("scores");
  const at::Tensor scores =
      at::matmul(q, k.transpose(-2, -1)).mul(scale).masked_fill(future, -std::numeric_limits<double>::infinity());
  range.Next("softmax");
  const at::Tensor probabilities = at::softmax(scores, -1);
  range.Next("weighted sum");
  return at::matmul(probabilities, v);
}

}  // namespace roofbench::models
