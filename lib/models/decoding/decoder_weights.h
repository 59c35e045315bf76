// SPDX-License-Identifier: Apache-2.0
// All weights of a decoder in their storage formats.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/decoding/linear_role.h"
#include "lib/models/decoding/stored_matrix.h"

namespace roofbench::models {

// The weights of norms have norm_offset in them already, and are in fp32 where there is one.
struct LayerWeights {
  at::Tensor attention_norm = {};      // [d_model]
  StoredMatrix qkv = {};               // [q + 2·kv, d_model]: queries, keys, values
  at::Tensor qkv_bias = {};            // [q + 2·kv]; undefined in a model without
  at::Tensor query_norm = {};          // [head_dim], of every head; undefined in a model without
  at::Tensor key_norm = {};            // the same
  StoredMatrix out = {};               // [d_model, q]
  at::Tensor attention_out_norm = {};  // [d_model], of what `out` leaves; undefined in a model without
  at::Tensor mlp_norm = {};            // [d_model]
  StoredMatrix router = {};            // [experts, d_model]; empty in a dense model
  StoredMatrix gate_up = {};           // experts x [2·d_ff, d_model]: gate, up
  StoredMatrix down = {};              // experts x [d_model, d_ff]
  at::Tensor mlp_out_norm = {};        // [d_model], of what `down` leaves; undefined in a model without
};

// What a layer has beside its matrices; some are undefined in most models. Layer: LayerWeights, const or not.
template <typename Layer>
auto LayerVectors(Layer& layer) {
  return std::array{&layer.attention_norm,     &layer.qkv_bias, &layer.query_norm,  &layer.key_norm,
                    &layer.attention_out_norm, &layer.mlp_norm, &layer.mlp_out_norm};
}

struct DecoderWeights {
  DecoderConfig config = {};
  Storage storage = {};
  at::Tensor embedding = {};  // [vocab, d_model], never quantised
  std::vector<LayerWeights> layers = {};
  at::Tensor final_norm = {};  // [d_model]
  StoredMatrix head = {};      // [vocab, d_model]; shares the embedding's memory where it is tied and not quantised

  // DecoderConfig's, rounded to the type of the embedding, as transformers has it.
  double EmbeddingScale() const;

  // Bytes of everything, shared memory once.
  int64_t nbytes() const;

  // Moves every tensor, one after another, so that the model is never in memory twice. As StoredMatrix::CheckDevice.
  absl::Status MoveTo(at::Device device);
};

// Storage::Default, but for int4 of a checkpoint that is stored in 4 bits: its codes in its groups, if int4 has such,
// and its head, which is not.
Storage DefaultStorage(const DecoderConfig& config, workload::WeightFormat format);

// Unimplemented with the reason where the formats cannot hold the model's matrices.
absl::Status CheckStorage(const DecoderConfig& config, const Storage& storage);

// Layer by layer and block by block, so that beside the stored model only a part of one matrix exists in another
// precision. int4 of a checkpoint that is stored in 4 bits keeps its codes. Unimplemented where the format cannot hold
// the shapes, DataLoss where a file has become shorter or holds weights that are no numbers.
absl::StatusOr<DecoderWeights> LoadWeights(const Checkpoint& checkpoint, const Storage& storage);

// Seeded random weights, made in their format and on their device: normal, and scaled so that activations neither grow
// nor fade. Errors also as StoredMatrix::CheckDevice.
absl::StatusOr<DecoderWeights> RandomWeights(const DecoderConfig& config, const Storage& storage, uint64_t seed,
                                             at::Device device = at::kCPU);

}  // namespace roofbench::models
