// SPDX-License-Identifier: Apache-2.0
// What a decoder's arithmetic needs to know beyond its shapes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/quantization_config.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// Llama 3.1's stretching of RoPE: wavelengths above original/low_frequency turn `factor` times slower, those below
// original/high_frequency as before, and those between something between ("rope_type": "llama3").
struct Llama3Rope {
  double factor = 8;
  double low_frequency = 1;
  double high_frequency = 4;
  double original_positions = 8192;
};

// What the gate of a feed-forward block is passed through: SiLU, or GELU by a tanh.
enum class Gate { kSilu, kGeluTanh };

struct DecoderConfig {
  workload::Decoder shape;
  std::set<int64_t> whole_layers = {};  // which the window of `shape` is not for, as many as its whole_layers
  double rms_epsilon = 1e-5;
  double norm_offset = 0;  // of all norms: they multiply by it and their stored weight
  Gate gate = Gate::kSilu;
  double embedding_scale = 1;  // of the rows of the embedding
  double score_scale = 0;      // of a query times a key; 0: 1 / sqrt(head_dim)
  double score_cap = 0;        // of these scores: cap · tanh(score / cap); 0: none
  double logit_cap = 0;        // the same of logits
  double rope_theta = 10000;
  std::optional<Llama3Rope> stretched = {};
  int64_t max_positions = 131072;
  std::vector<int64_t> stop_ids = {};       // a sequence ends with any of these
  std::optional<PackedFormat> packed = {};  // of a checkpoint whose linear layers are stored in 4 bits

  // Keys that a token attends to at most in a layer; 0: all before it.
  int64_t WindowOf(int64_t layer) const;
  // Of all layers.
  std::set<int64_t> Windows() const;
};

// The sizes of a decoder as tensors and kernels count them.
struct DecoderSizes {
  explicit DecoderSizes(const workload::Decoder& shape);

  int64_t q() const { return heads * dim; }
  int64_t kv() const { return kv_heads * dim; }
  int64_t qkv() const { return q() + 2 * kv(); }

  int64_t d;
  int64_t ff;
  int64_t heads;
  int64_t kv_heads;
  int64_t dim;
  int64_t layers;
  int64_t vocab;
  int64_t experts;
  int64_t active_experts;
};

DecoderConfig ConfigOf(const workload::DecoderPreset& preset);

// The text of a Hugging Face config.json of one of the architectures of architecture.h. InvalidArgument names the field
// and what is wrong with it; Unimplemented the field whose meaning this decoder does not know.
absl::StatusOr<DecoderConfig> ParseConfig(std::string_view text);

// The ids that end a sequence by the text of a generation_config.json, which go before those of config.json; none where
// it has none. InvalidArgument for what is no JSON object.
absl::StatusOr<std::vector<int64_t>> ParseStopIds(std::string_view text);

// [head_dim/2], fp64: what each pair turns a position.
at::Tensor InverseFrequencies(const DecoderConfig& config);

}  // namespace roofbench::models
