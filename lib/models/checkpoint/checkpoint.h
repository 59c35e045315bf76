// SPDX-License-Identifier: Apache-2.0
// Checkpoints as Hugging Face publishes them, and their linear layers in 4 bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/checkpoint/safetensors.h"

namespace roofbench::models {

// Rows of a 4-bit layer: w[i, j] = (codes[i, j] - zeros[i, j / group]) · scales[i, j / group], group = columns / groups
struct PackedRows {
  at::Tensor codes;   // uint8 [rows, columns], 0…15
  at::Tensor scales;  // fp32 [rows, groups]
  at::Tensor zeros;   // fp32 [rows, groups], whole numbers

  // [rows, columns] in fp32, in which products with 16-bit scales are exact.
  at::Tensor Dequantized() const;
};

// The tensors of a layer [rows, columns] in the files of GPTQ and AWQ, where rows of the layer are columns.
struct PackedLayer {
  PackedFormat format = {};
  at::Tensor qweight = {};  // int32, GPTQ: [columns / 8, rows], AWQ: [columns, rows / 8]
  at::Tensor qzeros = {};   // int32 [groups, rows / 8]
  at::Tensor scales = {};   // floating point [groups, rows]

  int64_t rows() const { return scales.size(1); }
  int64_t columns() const;
  // `count` rows from `first` on, both multiples of 8.
  PackedRows Rows(int64_t first, int64_t count) const;
};

// Codes in a word of 32 bits.
inline constexpr int64_t kCodesPerWord = 8;

// A tensor that a checkpoint must contain.
struct RequiredTensor {
  std::vector<int64_t> shape = {};
  bool is_words = false;  // int32, otherwise floating point
};

// Those of a configuration, by name, without the optional g_idx of GPTQ. Unimplemented if a layer does not fit 4 bits.
absl::StatusOr<std::map<std::string, RequiredTensor>> RequiredTensors(const DecoderConfig& config);

// A folder with config.json, and safetensors in one file, or in several with an index.
class Checkpoint {
 public:
  // Opens the files and compares every header with the configuration, before anything is allocated for the model. Like
  // transformers, it reads stop ids from generation_config.json, and uses a stored head that differs from the embedding
  // although the configuration ties them. Errors name the file, the tensor or field, and the reason.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const DecoderConfig& config() const { return config_; }
  // Unexpected facts about the files, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // The type of the embedding, which stands for the model.
  at::ScalarType StoredType() const;

  struct StoredTensor {
    std::string name;
    const Safetensors::Entry* entry;  // of this checkpoint
    double parameters = 0;            // of the model; 0 for the scales of 4-bit codes
  };
  // The tensors that the configuration implies, ordered by name.
  std::vector<StoredTensor> Tensors() const;
  // The number of other tensors in the files, which are not read.
  std::size_t unused() const { return tensors_.size() - Tensors().size(); }

  // Reads a tensor that the configuration implies in blocks of rows, so that memory does not hold a second model, and
  // passes each to `take` in its stored type. All blocks but the last have a multiple of 16 rows. A layer stored in 4
  // bits is dequantized to fp32. DataLoss if the file has become shorter since it was opened.
  absl::Status Read(const std::string& name,
                    const std::function<void(int64_t first, const at::Tensor& rows)>& take) const;

  // Whether the tensor of this name is stored in 4 bits.
  bool IsPacked(const std::string& name) const;
  // Like Read for such a tensor, but passes its codes.
  absl::Status ReadPacked(const std::string& name,
                          const std::function<void(int64_t first, const PackedRows& rows)>& take) const;

 private:
  struct Place {
    const Safetensors* file;
    const Safetensors::Entry* entry;
  };

  // Compares the tensors in the files with those that the configuration implies.
  absl::Status CheckTensors(const std::string& folder) const;
  // Checks that the columns of each group are adjacent.
  absl::Status CheckOrderOfColumns(const std::string& folder) const;
  // From generation_config.json, if present.
  absl::Status TakeStopIds(const std::string& folder);
  // Unties a stored head that differs from the embedding.
  absl::Status TakeStoredHead();

  DecoderConfig config_;
  std::vector<std::string> notes_;
  std::deque<Safetensors> files_;  // whose addresses stay
  std::map<std::string, Place> tensors_;
};

// Names of tensors in published checkpoints.
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
