// SPDX-License-Identifier: Apache-2.0
// What a decoder's arithmetic needs to know beyond its shapes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/workload/models/decoder_presets.h"

namespace roofbench::models {

// Llama 3.1's stretching of RoPE: wavelengths above original/low_frequency turn `factor` times slower, those below
// original/high_frequency as before, and those between something between ("rope_type": "llama3").
struct Llama3Rope {
  double factor = 8;
  double low_frequency = 1;
  double high_frequency = 4;
  double original_positions = 8192;
};

struct DecoderConfig {
  workload::Decoder shape;
  double rms_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<Llama3Rope> stretched = {};
  int64_t max_positions = 131072;
  std::vector<int64_t> stop_ids = {};  // a sequence ends with any of these
};

DecoderConfig ConfigOf(const workload::DecoderPreset& preset);

// The text of a Hugging Face config.json of a Llama or Mixtral model. InvalidArgument names the field and what is wrong
// with it; Unimplemented what this decoder does not do (other models, biases, sliding windows, other positions).
absl::StatusOr<DecoderConfig> ParseConfig(std::string_view text);

// The ids that end a sequence by the text of a generation_config.json, which go before those of config.json; none where
// it has none. InvalidArgument for what is no JSON object.
absl::StatusOr<std::vector<int64_t>> ParseStopIds(std::string_view text);

// [head_dim/2], fp64: what each pair turns a position.
at::Tensor InverseFrequencies(const DecoderConfig& config);

}  // namespace roofbench::models
