// SPDX-License-Identifier: Apache-2.0
// The weights of a decoder in their storage formats.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/decoding/stored_matrix.h"
#include "lib/workload/models/decoder.h"
#include "lib/workload/weight_format.h"

namespace roofbench::models {

// Products that read the same vector are one matrix: query, key and value; gate and up.
enum class LinearRole { kQkv, kOut, kRouter, kGateUp, kDown, kHead };

inline constexpr std::array<LinearRole, 6> kLinearRoles = {LinearRole::kQkv,    LinearRole::kOut,  LinearRole::kRouter,
                                                           LinearRole::kGateUp, LinearRole::kDown, LinearRole::kHead};

// "qkv_proj", "o_proj", "router", "gate_up_proj", "down_proj", "lm_head".
std::string_view Name(LinearRole role);
std::optional<LinearRole> ParseLinearRole(std::string_view name);

// How a model's weights, keys and values are stored.
struct Storage {
  workload::WeightFormat format = workload::WeightFormat::kBf16;
  int64_t group = 64;            // of int4
  double outlier_threshold = 6;  // of llm_int8; 0: no decomposition
  workload::Activations activations = workload::Activations::kDefault;
  bool int8_cache = false;            // keys and values in 8 bits: KvCache
  std::set<LinearRole> skipped = {};  // not quantized (llm_int8_skip_modules), like the router

  // As upstream: weight-only formats quantize the head, LLM.int8() does not.
  static Storage Default(workload::WeightFormat format);

  // The format of a linear layer, and that of everything that is not quantized.
  workload::WeightFormat FormatOf(LinearRole role) const;
  workload::WeightFormat Unquantized() const { return workload::UnquantizedFormat(format, activations); }

  // The model for the closed forms of bytes and work.
  workload::StoredDecoder Of(const workload::Decoder& shape) const;
};

// The weights of norms include DecoderConfig::NormOffset.
struct LayerWeights {
  at::Tensor attention_norm = {};      // [d_model]
  StoredMatrix qkv = {};               // [q + 2·kv, d_model]: queries, keys, values
  at::Tensor qkv_bias = {};            // [q + 2·kv]; undefined in a model without
  at::Tensor query_norm = {};          // [head_dim], of every head; undefined in a model without
  at::Tensor key_norm = {};            // the same
  StoredMatrix out = {};               // [d_model, q]
  at::Tensor out_bias = {};            // [d_model]; undefined in a model without
  at::Tensor attention_out_norm = {};  // [d_model], applied to the result of `out`; undefined in a model without
  at::Tensor mlp_norm = {};            // [d_model]
  StoredMatrix router = {};            // [experts, d_model]; empty in a dense model
  StoredMatrix gate_up = {};           // experts x [2·d_ff, d_model]: gate, up
  StoredMatrix down = {};              // experts x [d_model, d_ff]
  at::Tensor mlp_out_norm = {};        // [d_model], applied to the result of `down`; undefined in a model without
};

// The vectors of a layer; some are undefined in most models. Layer: LayerWeights, const or not.
template <typename Layer>
auto LayerVectors(Layer& layer) {
  return std::array{&layer.attention_norm, &layer.qkv_bias,           &layer.query_norm, &layer.key_norm,
                    &layer.out_bias,       &layer.attention_out_norm, &layer.mlp_norm,   &layer.mlp_out_norm};
}

struct DecoderWeights {
  DecoderConfig config = {};
  Storage storage = {};
  at::Tensor embedding = {};  // [vocab, d_model], never quantized
  std::vector<LayerWeights> layers = {};
  at::Tensor final_norm = {};  // [d_model]
  StoredMatrix head = {};      // [vocab, d_model]; shares the embedding's memory if it is tied and not quantized

  // DecoderConfig's, rounded to the type of the embedding, as in transformers.
  double EmbeddingScale() const;

  // Bytes of all weights; shared memory counts once.
  int64_t nbytes() const;

  // Moves one tensor at a time, so that memory never holds the model twice. Errors as StoredMatrix::CheckDevice.
  absl::Status MoveTo(at::Device device);
};

// Storage::Default; int4 of a checkpoint that is stored in 4 bits keeps the checkpoint's groups, if int4 supports them,
// and its unquantized head.
Storage DefaultStorage(const DecoderConfig& config, workload::WeightFormat format);

// Unimplemented, with the reason, if the formats cannot hold the model's matrices.
absl::Status CheckStorage(const DecoderConfig& config, const Storage& storage);

// The model that one of `parts` ranks has: its heads of queries, keys and values, and its features of the feed-forward
// layers; embedding, norms, router and head are whole. Unimplemented, with the reason, if they cannot be divided
// evenly, or the formats cannot hold the parts.
absl::StatusOr<DecoderConfig> PartOf(const DecoderConfig& config, const Storage& storage, int64_t parts);

// Loads block by block: in addition to the model, memory holds one block of a matrix. int4 of a checkpoint that is
// stored in 4 bits keeps its codes. Unimplemented if the format cannot hold the shapes; DataLoss if a file has become
// shorter or weights are not finite. `part`, as of PartOf: the same values as in the whole model, quantized as a whole;
// memory never holds more than a layer in addition to the part.
absl::StatusOr<DecoderWeights> LoadWeights(const Checkpoint& checkpoint, const Storage& storage,
                                           const ModelPart& part = {});

// Seeded random weights, generated in their format and on their device: normal, and scaled to keep the size of
// activations. `part`: as of LoadWeights. Errors also as StoredMatrix::CheckDevice.
absl::StatusOr<DecoderWeights> RandomWeights(const DecoderConfig& config, const Storage& storage, uint64_t seed,
                                             at::Device device = at::kCPU, const ModelPart& part = {});

}  // namespace roofbench::models
