// SPDX-License-Identifier: Apache-2.0
// The configuration of a decoder: its shape, its arithmetic, and how a checkpoint stores its linear layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// How RoPE turns in texts that may be longer than those of the training: the rope_type of transformers.
struct StretchedRope {
  enum class Method {
    kLinear,    // all pairs turn `factor` times slower
    kDynamic,   // beyond the original positions, the base grows with the length of the text ("NTK")
    kYarn,      // arXiv:2309.00071: pairs turn `factor` times slower, except those that turn often
    kLongRope,  // arXiv:2402.13753: each pair has its factor, another one in texts beyond the original positions
    kLlama3,    // as YaRN, by wavelengths
  };

  Method method = Method::kLlama3;
  double factor = 8;
  double original_positions = 8192;
  double attention_factor = 1;  // of cosines and sines, so that scores grow by its square: YaRN and LongRoPE
  // Llama 3.1: wavelengths above original/low_frequency turn `factor` times slower, those below original/high_frequency
  // as before, with an interpolation between the two.
  double low_frequency = 1;
  double high_frequency = 4;
  // YaRN: the same for pairs that turn less than `slow` times and more than `fast` times over the original positions;
  // their indices are rounded outwards unless `exact_pairs`.
  double fast_turns = 32;
  double slow_turns = 1;
  bool exact_pairs = false;
  std::vector<double> short_factors = {};  // LongRoPE: of each pair
  std::vector<double> long_factors = {};   // beyond the original positions
};

// The gate function of a feed-forward block: SiLU, or GELU by a tanh.
enum class Gate { kSilu, kGeluTanh };

// How the linear layers of a checkpoint are stored in 4 bits (quantization_config). A weight is (code - zero) · scale,
// with a zero and a scale for each group of columns of a row. The embedding, the head, norms, biases and routers are
// not packed.
struct PackedFormat {
  // The contents of a 32-bit word: GPTQ packs the codes of 8 columns, AWQ those of 8 rows in an interleaved order.
  enum class Packing { kGptq, kAwq };

  Packing packing = Packing::kGptq;
  int64_t group = 128;                // columns; 0: a row is one group
  int64_t added_to_zeros = 0;         // GPTQ's first format stores zeros minus 1
  bool orders_by_activation = false;  // desc_act: g_idx assigns columns to groups in any order

  int64_t GroupOf(int64_t columns) const { return group == 0 ? columns : group; }
  const char* Name() const { return packing == Packing::kGptq ? "gptq" : "awq"; }
};

struct DecoderConfig {
  workload::Decoder shape;
  std::set<int64_t> whole_layers = {};  // layers without the window of `shape`, whose whole_layers is their number
  double rms_epsilon = 1e-5;
  Gate gate = Gate::kSilu;
  double embedding_scale = 1;  // of the rows of the embedding
  double score_scale = 0;      // of a query times a key; 0: see ScoreScale
  double score_cap = 0;        // of these scores: cap · tanh(score / cap); 0: none
  double logit_cap = 0;        // the same of logits
  double rope_theta = 10000;
  std::optional<StretchedRope> stretched = {};
  int64_t rotary_dim = 0;  // the first elements of a head, which turn; 0: all
  int64_t max_positions = 131072;
  std::vector<int64_t> stop_ids = {};  // a sequence ends with any of these
  // A checkpoint stores queries, keys and values as one layer, and gate and up as another.
  bool joined_products = false;
  std::optional<PackedFormat> packed = {};  // of a checkpoint whose linear layers are stored in 4 bits

  // score_scale, by default 1 / sqrt(head_dim).
  double ScoreScale() const;
  // Added to the stored weights of norms: models whose norms run in fp32 (Gemma) store them minus one.
  double NormOffset() const { return shape.fp32_norms ? 1 : 0; }
  // The most keys that a token attends to in a layer; 0: all before it.
  int64_t WindowOf(int64_t layer) const;
  // The elements of a head that turn.
  int64_t RotaryDim() const;
  // The longest text whose tokens turn as in any shorter one; nullopt: any.
  std::optional<int64_t> FixedLength() const;
  // The windows of all layers.
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

// Parses a Hugging Face config.json of a known architecture. InvalidArgument names the field and its error;
// Unimplemented names the field whose meaning is unknown.
absl::StatusOr<DecoderConfig> ParseConfig(std::string_view text);

// The ids that end a sequence in a generation_config.json; they take precedence over those of config.json, and may be
// none. InvalidArgument for anything but a JSON object.
absl::StatusOr<std::vector<int64_t>> ParseStopIds(std::string_view text);

// Unimplemented if a text that grows token by token from `first` to `last` would be read again on the way: with
// LongRoPE, all tokens of a text beyond the original positions turn otherwise.
absl::Status CheckGrowth(const DecoderConfig& config, int64_t first, int64_t last);

// The angle by which each pair turns per position, fp64 [n, RotaryDim() / 2], in texts of `lengths` [n] tokens (fp64);
// [1, …] if the lengths do not matter.
at::Tensor InverseFrequencies(const DecoderConfig& config, const at::Tensor& lengths);

}  // namespace roofbench::models
