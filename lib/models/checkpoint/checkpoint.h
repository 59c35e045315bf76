// SPDX-License-Identifier: Apache-2.0
// A folder as Hugging Face publishes models: config.json, and safetensors in one file or in several with an index.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/checkpoint/safetensors.h"

namespace roofbench::models {

class Checkpoint {
 public:
  // Maps the files and holds every header against the configuration: nothing is allocated for a folder that lacks a
  // tensor or has one of another shape. Errors name the file, the tensor or field, and the reason.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const DecoderConfig& config() const { return config_; }

  // The tensor of this name, which the configuration implies, as the file stores it. It is a view: valid as long as the
  // checkpoint.
  at::Tensor Get(const std::string& name) const;

 private:
  DecoderConfig config_;
  std::vector<Safetensors> files_;
  std::map<std::string, const Safetensors::Entry*> tensors_;
};

// Names of a model's tensors in published checkpoints.
namespace tensor_names {
inline constexpr char kEmbedding[] = "model.embed_tokens.weight";
inline constexpr char kFinalNorm[] = "model.norm.weight";
inline constexpr char kHead[] = "lm_head.weight";
// "model.layers.<layer>.<module>.weight"
std::string OfLayer(int64_t layer, const std::string& module);
// The matrices w1 (gate), w2 (down) and w3 (up) of an expert of a mixture.
std::string OfExpert(int64_t layer, int64_t expert, const std::string& matrix);
}  // namespace tensor_names

}  // namespace roofbench::models
