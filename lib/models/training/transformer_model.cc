// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/transformer_model.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "lib/observe/ranges.h"

namespace roofbench::models {

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

namespace {

constexpr double kRopeTheta = 10000;

at::Tensor EagerAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                          int64_t heads, Attention kind) {
  const int64_t kv_heads = heads * k.size(-1) / q.size(-1);
  return MergeHeads(CausalAttention(rope.Rotate(SplitHeads(q, heads)), rope.Rotate(SplitHeads(k, kv_heads)),
                                    SplitHeads(v, kv_heads), kind));
}

// Glorot's deviation, which preserves the size of forward and backward signals.
double Deviation(int64_t out, int64_t in) { return std::sqrt(2.0 / static_cast<double>(out + in)); }

}  // namespace

const LayerFunctions& EagerLayers() {
  static constexpr LayerFunctions kEager{
      .linear = [](const at::Tensor& x, const at::Tensor& weight) { return at::linear(x, weight); },
      .norm = RmsNorm,
      .attention = EagerAttention,
      .gate = [](const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate).mul(up); },
      .cross_entropy = [](const at::Tensor& logits,
                          const at::Tensor& targets) { return at::cross_entropy_loss(logits, targets); }};
  return kEager;
}

at::Tensor RunBlock(const TransformerBlock& block, const RotaryTable& rope, const TransformerContext& context,
                    const at::Tensor& x) {
  const LayerFunctions& layers = *context.layers;
  observe::Range range("attention");
  ForwardHooks& hooks = *context.hooks;
  const at::Tensor normed = hooks.ToShards(layers.norm(x, block.attention_norm, context.norm_epsilon));
  const at::Tensor attended =
      layers.attention(layers.linear(normed, block.query), layers.linear(normed, block.key),
                       layers.linear(normed, block.value), rope, context.heads, context.attention);
  const at::Tensor middle = x.add(hooks.FromShards(layers.linear(attended, block.output)));
  range.Next("feed forward");
  const at::Tensor inner = hooks.ToShards(layers.norm(middle, block.feed_forward_norm, context.norm_epsilon));
  const at::Tensor gated = layers.gate(layers.linear(inner, block.gate), layers.linear(inner, block.up));
  return middle.add(hooks.FromShards(layers.linear(gated, block.down)));
}

at::Tensor LossOf(const TransformerContext& context, const at::Tensor& logits, const at::Tensor& targets) {
  if (context.loss == Loss::kMeanLogit) return logits.mean();
  return context.layers->cross_entropy(logits.flatten(0, 1), targets.flatten());
}

TransformerModel::TransformerModel(const workload::Transformer& shape, int64_t context_length,
                                   const TransformerContext& run_context, const MakeParameter& make)
    : rope(context_length, static_cast<int64_t>(shape.HeadDim()), kRopeTheta, at::TensorOptions(run_context.device)),
      context(run_context) {
  const auto d_model = static_cast<int64_t>(shape.d_model);
  const auto d_ff = static_cast<int64_t>(shape.d_ff);
  const auto vocab = static_cast<int64_t>(shape.vocab);
  const auto q_width = static_cast<int64_t>(shape.QueryWidth());
  const auto kv_width = static_cast<int64_t>(shape.KvWidth());
  const auto matrix = [&](int64_t out, int64_t in) { return make({out, in}, Deviation(out, in)); };
  embedding = make({vocab, d_model}, 1);
  for (int64_t i = 0; i < static_cast<int64_t>(shape.layers); ++i) {
    blocks.push_back({.attention_norm = make({d_model}, 0),
                      .query = matrix(q_width, d_model),
                      .key = matrix(kv_width, d_model),
                      .value = matrix(kv_width, d_model),
                      .output = matrix(d_model, q_width),
                      .feed_forward_norm = make({d_model}, 0),
                      .gate = matrix(d_ff, d_model),
                      .up = matrix(d_ff, d_model),
                      .down = matrix(d_model, d_ff)});
  }
  norm = make({d_model}, 0);
  head = matrix(vocab, d_model);
}

at::Tensor TransformerModel::Logits(const at::Tensor& tokens) const {
  at::Tensor x = InUnit(*context.hooks, 0, [&] {
    const observe::Range range("embedding");
    return at::embedding(embedding, tokens);
  });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const observe::Range range("block", static_cast<int64_t>(i));
    x = InUnit(*context.hooks, i + 1, [&] { return RunBlock(blocks[i], rope, context, x); });
  }
  const observe::Range range("head");
  return InUnit(*context.hooks, blocks.size() + 1,
                [&] { return context.layers->linear(context.layers->norm(x, norm, context.norm_epsilon), head); });
}

at::Tensor TransformerModel::Loss(const at::Tensor& tokens, const at::Tensor& targets) const {
  const at::Tensor logits = Logits(tokens);
  const observe::Range range("loss");
  return LossOf(context, logits, targets);
}

std::vector<at::Tensor> TransformerModel::Parameters() const {
  std::vector<at::Tensor> parameters = {embedding};
  for (const TransformerBlock& block : blocks) {
    for (const at::Tensor* tensor : TransformerBlock::Tensors(block)) parameters.push_back(*tensor);
  }
  parameters.insert(parameters.end(), {norm, head});
  return parameters;
}

}  // namespace roofbench::models
