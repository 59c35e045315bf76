// SPDX-License-Identifier: Apache-2.0
// A folder as Hugging Face publishes models: config.json, and safetensors in one file or in several with an index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/checkpoint/packed_rows.h"
#include "lib/models/checkpoint/safetensors.h"

namespace roofbench::models {

class Checkpoint {
 public:
  // Opens the files and holds every header against the configuration: nothing is allocated for a folder that lacks a
  // tensor or has one of another shape. As transformers does, it takes stop ids from generation_config.json, and a
  // stored head that differs from the embedding though the configuration ties them. Errors name the file, the tensor or
  // field, and the reason.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const DecoderConfig& config() const { return config_; }
  // What a reader of the files may not expect: a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Of the embedding: models are stored in one precision.
  at::ScalarType StoredType() const;

  struct StoredTensor {
    std::string name;
    const Safetensors::Entry* entry;  // of this checkpoint
    double parameters = 0;            // of the model that it holds: none in the scales of 4-bit codes
  };
  // Those that the configuration implies, in the order of their names.
  std::vector<StoredTensor> Tensors() const;
  // How many others lie in the files, which nobody reads.
  std::size_t unused() const { return tensors_.size() - Tensors().size(); }

  // Hands the tensor of this name, which the configuration implies, to `take` as the file stores it: block by block of
  // its rows, each but the last of a multiple of 16 of them, so that no second model lies in memory. DataLoss where the
  // file has become shorter since it was opened. A layer that is stored in 4 bits comes dequantised, in fp32.
  absl::Status Read(const std::string& name,
                    const std::function<void(int64_t first, const at::Tensor& rows)>& take) const;

  // Whether Read's tensor of this name is stored in 4 bits.
  bool IsPacked(const std::string& name) const;
  // The same for one of those, as its codes.
  absl::Status ReadPacked(const std::string& name,
                          const std::function<void(int64_t first, const PackedRows& rows)>& take) const;

 private:
  struct Place {
    const Safetensors* file;
    const Safetensors::Entry* entry;
  };

  // Holds the tensors of the files against those that the configuration implies.
  absl::Status CheckTensors(const std::string& folder) const;
  // Whether the columns of each group lie side by side.
  absl::Status CheckOrderOfColumns(const std::string& folder) const;
  // generation_config.json, where there is one.
  absl::Status TakeStopIds(const std::string& folder);
  // A stored head that is not the embedding, though the configuration ties them, is a head of its own.
  absl::Status TakeStoredHead();

  DecoderConfig config_;
  std::vector<std::string> notes_;
  std::vector<Safetensors> files_;
  std::map<std::string, Place> tensors_;
};

// Names of a model's tensors in published checkpoints.
namespace tensor_names {
inline constexpr char kEmbedding[] = "model.embed_tokens.weight";
inline constexpr char kFinalNorm[] = "model.norm.weight";
inline constexpr char kHead[] = "lm_head.weight";
// "model.layers.<layer>.<module>.weight"
std::string OfLayer(int64_t layer, const std::string& module);
// "model.layers.<layer>.<module>.bias"
std::string BiasOfLayer(int64_t layer, const std::string& module);
// The matrices w1 (gate), w2 (down) and w3 (up) of an expert of a mixture.
std::string OfExpert(int64_t layer, int64_t expert, const std::string& matrix);
}  // namespace tensor_names

}  // namespace roofbench::models
