// SPDX-License-Identifier: Apache-2.0
// A decoder of the Llama kind (also Mistral, Mixtral, Qwen, Gemma 2): its sizes, parameters and bytes, and the work of
// reading a prompt and of one more token.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "lib/workload/cost.h"
#include "lib/workload/models/transformer.h"
#include "lib/workload/weight_format.h"

namespace roofbench::workload {

// A transformer, or a mixture: every layer then has `experts` feed-forward blocks of width d_ff and a router, and a
// token takes `active_experts` of them.
struct Decoder {
  Transformer base;
  double experts = 1;  // 1: a dense model without a router
  double active_experts = 1;
  double window = 0;            // keys that a token attends to at most, its own among them; 0: all before it
  double whole_layers = 0;      // of those with a window, how many have none
  bool attention_bias = false;  // of the products that make queries, keys and values
  bool head_norms = false;      // of every head of queries and keys, before they are turned
  bool output_norms = false;    // of what attention and the feed-forward block leave, before it is added
  bool fp32_norms = false;      // their weights are not rounded to the precision of the others

  bool IsMixture() const { return experts > 1; }

  // Weights of the matrices that every token of a layer, or one expert, goes through.
  double AttentionParameters() const;  // (2·q + 2·kv)·d
  double ExpertParameters() const;     // 3·d·ff
  double RouterParameters() const;     // experts·d, none in a dense model
  // Weights of a layer that are no matrices.
  double BiasParameters() const;  // q + 2·kv, if any
  double NormParameters() const;  // 2·d, as many again with output norms, and 2·head_dim with those of heads

  // vocab·d (twice without a tied head) + layers·(attention + experts·3·d·ff + router + biases + norms) + d
  double Parameters() const;
  // The parameters in products that one token takes part in: of its experts alone, without the embedding.
  double ActiveParameters() const;
  // Bytes of keys and values that one token of one sequence leaves: 2·layers·kv·(element size).
  double KvBytesPerToken(WeightFormat format) const;
  // Different experts of a layer that `tokens` tokens go to where the router is indifferent:
  // experts·(1 - (1 - active/experts)^tokens).
  double ExpectedExperts(double tokens) const;
  // Keys that `tokens` tokens of a sequence attend to, all together, with `depth` tokens before the first of them:
  // the sum of depth + 1 … depth + tokens, each of which is `window` at most; in the mean over the layers.
  double AttendedKeys(double depth, double tokens) const;
  // Different keys among them, likewise.
  double ReadKeys(double depth, double tokens) const;
};

// The components of a decoder: what a step of it is cut into, and what its operations belong to. The rows of the
// embedding and the norms of tokens; the products, with their biases; attention with the norms and the rotation of its
// heads and what it adds to the cache; the gate between two products; and where threads wait for each other.
enum class DecoderComponent { kNorm, kQkv, kAttention, kOut, kRouter, kGateUp, kGate, kDown, kHead, kWait };
inline constexpr std::array<std::string_view, 10> kDecoderComponentNames = {
    "norm", "qkv", "attention", "out", "router", "gate_up", "gate", "down", "head", "wait"};
constexpr std::string_view Name(DecoderComponent component) {
  return kDecoderComponentNames[static_cast<std::size_t>(component)];
}

// A sequence of a batch: its prompt, and the new tokens that it gets until it ends.
struct SequenceTokens {
  double prompt = 0;
  double new_tokens = 1;
};

// Tokens of one sequence that go through a decoder at once, with `depth` before them, each with its logits.
struct DecoderPass {
  double depth = 0;
  double tokens = 1;
};

// A decoder with its weights in a format.
struct StoredDecoder {
  Decoder shape;
  WeightFormat format = WeightFormat::kBf16;
  std::set<DecoderComponent> kept = {};  // products whose weights are not quantized; the router's never are
  double group = 64;                     // of int4
  Activations activations = Activations::kDefault;
  bool int8_cache = false;  // keys and values in 8 bits, with a factor in fp32 of each head's

  WeightFormat FormatOf(DecoderComponent product) const { return kept.contains(product) ? Unquantized() : format; }
  WeightFormat Unquantized() const { return UnquantizedFormat(format, activations); }

  // Bytes of keys and values that one token of one sequence leaves in a layer, and in all.
  double KvBytesOfLayer() const;
  double KvBytesPerToken() const { return shape.base.layers * KvBytesOfLayer(); }

  // All weights, norms and tables: what the model occupies. A tied head that is quantized is a second matrix beside the
  // embedding, which is not.
  double ModelBytes() const;
  // Weights that `tokens` tokens read together: no embedding but their rows, no idle expert.
  double WeightsReadBytes(double tokens) const;

  // `batch` sequences of `prompt` tokens each, from an empty cache to the logits of the last token of each.
  // Attention is causal: half of the square. What lies between the operations is not counted: it stays in caches.
  workload::Cost PrefillCost(double batch, double prompt, double capacity) const;
  // One token of each of `batch` sequences with `depth` tokens in the cache before it.
  workload::Cost DecodeCost(double batch, double depth, double capacity) const;
  // As many tokens of each one after another, the first of them at `depth`.
  workload::Cost TokensCost(double batch, double depth, double tokens, double capacity) const;
  // The prompt, whose last logits give the first new token, and `new_tokens` - 1 steps of one token: the components
  // "prefill" and "decode".
  workload::Cost GenerateCost(double batch, double prompt, double new_tokens) const;
  // The same of sequences of their own lengths, none of which is padded, or takes part in a step after its last token.
  workload::Cost GenerateCost(const std::vector<SequenceTokens>& sequences) const;
  // The same of one sequence whose tokens after the first came by these passes: of a model that reads what a draft has
  // guessed, or of that draft. `capacity`: of the cache.
  workload::Cost GenerateCost(double prompt, double capacity, const std::vector<DecoderPass>& passes) const;
  // Weights, keys and values that the tokens after the first read: of MBU.
  double DecodeReadBytes(double batch, double prompt, double new_tokens) const;
  double DecodeReadBytes(const std::vector<SequenceTokens>& sequences) const;
  double DecodeReadBytes(const std::vector<DecoderPass>& passes) const;

  // Weights, a cache of `capacity` tokens a sequence, and the largest intermediate results of `tokens` tokens at once,
  // with the mask of those that outgrow a window.
  double ResidentBytes(double batch, double tokens, double capacity) const;
};

}  // namespace roofbench::workload
