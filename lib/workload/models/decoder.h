// SPDX-License-Identifier: Apache-2.0
// A decoder of the Llama family (also Mistral, Mixtral, Qwen, Phi-3, Gemma 2): its sizes, parameters and bytes, and the
// work of reading a prompt and of generating one more token.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/workload/cost.h"
#include "lib/workload/models/transformer.h"
#include "lib/workload/weight_format.h"

namespace roofbench::workload {

// A transformer, or a mixture: in the latter, every layer has `experts` feed-forward blocks of width d_ff and a router,
// and a token takes `active_experts` of them.
struct Decoder {
  Transformer base;
  double experts = 1;  // 1: a dense model without a router
  double active_experts = 1;
  double window = 0;            // keys that a token attends to at most, including its own; 0: all earlier ones
  double whole_layers = 0;      // layers without a window, where other layers have one
  bool attention_bias = false;  // in the products that make queries, keys and values
  bool output_bias = false;     // in the product of attention's output
  bool head_norms = false;      // on every head of queries and keys, before the rotation
  bool output_norms = false;    // on the outputs of attention and the feed-forward block, before the residual sum
  bool fp32_norms = false;      // their weights are not rounded to the precision of the others

  bool IsMixture() const { return experts > 1; }

  double ExpertParameters() const { return 3 * base.d_model * base.d_ff; }  // the matrices of one expert
  double RouterParameters() const { return IsMixture() ? experts * base.d_model : 0; }
  // Weights of a layer outside its matrices.
  double QkvBiasParameters() const { return attention_bias ? base.QueryWidth() + 2 * base.KvWidth() : 0; }
  double BiasParameters() const { return QkvBiasParameters() + (output_bias ? base.d_model : 0); }
  double NormParameters() const {
    return (output_norms ? 4 : 2) * base.d_model + (head_norms ? 2 * base.HeadDim() : 0);
  }

  // vocab·d (twice without a tied head) + layers·(attention + experts·3·d·ff + router + biases + norms) + d
  double Parameters() const;
  // The product parameters that one token uses: of its active experts alone, without the embedding.
  double ActiveParameters() const;
  // Bytes of keys and values that one token of one sequence stores: 2·layers·kv·(element size).
  double KvBytesPerToken(WeightFormat format) const;
  // Expected number of distinct experts of a layer for `tokens` tokens under a uniform router:
  // experts·(1 - (1 - active/experts)^tokens).
  double ExpectedExperts(double tokens) const;
  // The tokens that each of these experts multiplies: all of them in a dense model.
  double TokensOfAnExpert(double tokens) const;
  // Keys that `tokens` tokens of a sequence attend to, all together, with `depth` tokens before the first of them: the
  // sum of depth + 1 … depth + tokens, each of which is `window` at most; averaged over the layers.
  double AttendedKeys(double depth, double tokens) const;
  // Distinct keys among them, averaged likewise.
  double ReadKeys(double depth, double tokens) const;
};

// Most elements of quantized weights that LibTorch's products on a CPU take at once, in another type.
inline constexpr int64_t kDequantizedElements = int64_t{1} << 22;

// The components of a decoder: the parts of a step, to which its operations belong. They are the rows of the embedding
// and the norms of tokens; the products, with their biases; attention with the norms and the rotation of its heads and
// its additions to the cache; the gate between two products; and the points where threads wait for each other.
enum class DecoderComponent { kNorm, kQkv, kAttention, kOut, kRouter, kGateUp, kGate, kDown, kHead, kWait };
inline constexpr std::array<std::string_view, 10> kDecoderComponentNames = {
    "norm", "qkv", "attention", "out", "router", "gate_up", "gate", "down", "head", "wait"};
constexpr std::string_view Name(DecoderComponent component) {
  return kDecoderComponentNames[static_cast<std::size_t>(component)];
}

// A sequence of a batch: its prompt, and the number of new tokens until it ends.
struct SequenceTokens {
  double prompt = 0;
  double new_tokens = 1;
};

// Tokens of one sequence that pass through a decoder at once, with `depth` before them, each with its logits.
struct DecoderPass {
  double depth = 0;
  double tokens = 1;
};

// A decoder with its weights in a format.
struct StoredDecoder {
  Decoder shape;
  WeightFormat format = WeightFormat::kBf16;
  std::set<DecoderComponent> kept = {};  // products whose weights are not quantized; the router's never are
  double group = 64;                     // for int4
  Activations activations = Activations::kDefault;
  bool int8_cache = false;   // keys and values in 8 bits, each head's vector with an fp32 factor
  bool own_kernels = false;  // ours compute norms, products of rounded vectors, rotations and attention of prompts,
  bool tiles = false;        // and those of a prompt in bf16
  bool packs_int4 = false;   // whose tiles, in registers, take vectors for weights in int4 as they do for bf16

  WeightFormat FormatOf(DecoderComponent product) const { return kept.contains(product) ? Unquantized() : format; }
  WeightFormat Unquantized() const { return UnquantizedFormat(format, activations); }

  // Bytes of keys and values that one token of one sequence stores in a layer, and in all.
  double KvBytesOfLayer() const;
  double KvBytesPerToken() const { return shape.base.layers * KvBytesOfLayer(); }

  // All weights, norms and tables: the memory of the model. A tied head that is quantized is a second matrix in
  // addition to the embedding, which is not quantized.
  double ModelBytes() const;

  // `batch` sequences of `prompt` tokens each, from an empty cache to the logits of the last token of each. Attention
  // is causal: half of the square. Data between the operations is not counted: it stays in caches.
  workload::Cost PrefillCost(double batch, double prompt, double capacity) const;
  // One token of each of `batch` sequences with `depth` tokens in the cache before it.
  workload::Cost DecodeCost(double batch, double depth, double capacity) const {
    return TokensCost(batch, depth, 1, capacity);
  }
  // `tokens` such steps one after another, the first of them at `depth`.
  workload::Cost TokensCost(double batch, double depth, double tokens, double capacity) const;
  // The prompt, whose last logits give the first new token, and `new_tokens` - 1 steps of one token: the components
  // "prefill" and "decode".
  workload::Cost GenerateCost(double batch, double prompt, double new_tokens) const;
  // The same for sequences of different lengths, which are not padded; a sequence leaves the steps after its last
  // token.
  workload::Cost GenerateCost(const std::vector<SequenceTokens>& sequences) const;
  // The same for one sequence whose tokens after the first came from these passes: those of a model that verifies a
  // draft's guesses, or of the draft. `capacity`: that of the cache.
  workload::Cost GenerateCost(double prompt, double capacity, const std::vector<DecoderPass>& passes) const;
  // Weights, keys and values that the tokens after the first read: the bytes of MBU.
  double DecodeReadBytes(double batch, double prompt, double new_tokens) const;
  double DecodeReadBytes(const std::vector<SequenceTokens>& sequences) const;
  double DecodeReadBytes(const std::vector<DecoderPass>& passes) const;

  // Weights, a cache of `capacity` tokens per sequence, and the largest intermediate results of `tokens` tokens at
  // once, with the mask of sequences longer than a window.
  double ResidentBytes(double batch, double tokens, double capacity) const;

 private:
  // Whether a product with such weights rounds the vectors to 8 bits.
  bool RoundsVectors(WeightFormat in) const;
  // The result of a vector's product with a matrix, and the intermediate results that exist with it.
  double ProductBytes(DecoderComponent product, double rows, double columns) const;
  double LayerBytes(double tokens) const;
  // Vectors of `tokens` tokens at once, packed for tiles.
  double PackedVectorBytes(double tokens) const;
};

// The language models that cases are named after.

struct DecoderPreset {
  std::string_view name;
  std::string_view doc;
  Decoder shape;
  double rope_theta = 10000;
  double rope_factor = 8;
  bool llama3_rope = false;  // Llama 3.1's stretched positions (factor 8 or 32, from 8192)
  bool published = true;     // in this size
};

// Real models with their published sizes; reduced versions, named as such, which keep the ratio of layers to
// vocabulary, so that a token spends the same shares of its time in the same parts; and tiny ones for tests.
std::span<const DecoderPreset> DecoderPresets();

// nullptr for any other name.
const DecoderPreset* FindDecoderPreset(std::string_view name);

}  // namespace roofbench::workload
