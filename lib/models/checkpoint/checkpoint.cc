// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/checkpoint.h"

#include <ATen/ops/empty.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/aten/elements.h"
#include "lib/base/files.h"
#include "lib/base/json.h"

namespace roofbench::models {
namespace {

using kernels::Range;
using Packing = PackedFormat::Packing;

// The bit of the code of row 8·i + r in a word: AWQ writes rows 0, 2, 4, 6, 1, 3, 5, 7.
constexpr std::array<unsigned, kCodesPerWord> kAwqShifts = {0, 16, 4, 20, 8, 24, 12, 28};
constexpr std::array<unsigned, kCodesPerWord> kGptqShifts = {0, 4, 8, 12, 16, 20, 24, 28};

uint8_t CodeAt(int32_t word, unsigned shift) {
  return static_cast<uint8_t>((std::bit_cast<uint32_t>(word) >> shift) & 15U);
}

}  // namespace

at::Tensor PackedRows::Dequantized() const {
  const int64_t rows = codes.size(0);
  const at::Tensor grouped = codes.to(at::kFloat).view({rows, zeros.size(1), -1});
  return grouped.sub_(zeros.unsqueeze(2)).mul_(scales.unsqueeze(2)).view({rows, -1});
}

int64_t PackedLayer::columns() const {
  return format.packing == Packing::kGptq ? qweight.size(0) * kCodesPerWord : qweight.size(0);
}

PackedRows PackedLayer::Rows(int64_t first, int64_t count) const {
  const bool is_gptq = format.packing == Packing::kGptq;
  const auto& shifts = is_gptq ? kGptqShifts : kAwqShifts;
  const int64_t k = columns();
  const int64_t groups = scales.size(0);
  PackedRows made{.codes = at::empty({count, k}, at::kByte),
                  .scales = scales.narrow(1, first, count).to(at::kFloat).t().contiguous(),
                  .zeros = at::empty({count, groups}, at::kFloat)};
  const auto* const words = qweight.const_data_ptr<int32_t>();
  const auto* const zero_words = qzeros.const_data_ptr<int32_t>();
  auto* const codes = made.codes.data_ptr<uint8_t>();
  auto* const zeros = made.zeros.data_ptr<float>();
  // Eight rows at a time, as in a word.
  TorchThreads()(count / kCodesPerWord, [&](Range blocks) {
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int64_t to_row = block * kCodesPerWord;
      const int64_t in_words = first / kCodesPerWord + block;
      for (int64_t r = 0; r < kCodesPerWord; ++r) {
        const unsigned shift = shifts[static_cast<std::size_t>(r)];
        for (int64_t g = 0; g < groups; ++g) {
          const int32_t word = zero_words[g * (rows() / kCodesPerWord) + in_words];
          zeros[(to_row + r) * groups + g] = static_cast<float>(CodeAt(word, shift) + format.added_to_zeros);
        }
      }
      for (int64_t i = 0; i < qweight.size(0); ++i) {
        for (int64_t r = 0; r < kCodesPerWord; ++r) {
          uint8_t* const row = codes + (to_row + r) * k;
          if (!is_gptq) {
            row[i] = CodeAt(words[i * qweight.size(1) + in_words], shifts[static_cast<std::size_t>(r)]);
            continue;
          }
          const int32_t word = words[i * qweight.size(1) + first + to_row + r];
          for (int64_t c = 0; c < kCodesPerWord; ++c) {
            row[i * kCodesPerWord + c] = CodeAt(word, shifts[static_cast<std::size_t>(c)]);
          }
        }
      }
    }
  });
  return made;
}

namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kGenerationConfig[] = "generation_config.json";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr int kIndexDepth = 2;
constexpr uint64_t kLongestConfig = 16 << 20;
constexpr uint64_t kLongestIndex = 100'000'000;  // as the header of a safetensors file
constexpr uint64_t kBlockBytes = 64 << 20;       // of a tensor, read at once
constexpr int64_t kRowGrain = 16;                // int4 is stored in tiles of so many rows

bool Exists(const std::string& path) {
  struct stat facts = {};
  return stat(path.c_str(), &facts) == 0;
}

int64_t RowsOfABlock(uint64_t row_bytes) {
  const auto fitting = static_cast<int64_t>(kBlockBytes / std::max<uint64_t>(1, row_bytes));
  return std::max(kRowGrain, fitting / kRowGrain * kRowGrain);
}

// The files of the folder that hold tensors, and where it has an index, which file has the valid copy of each.
struct Files {
  std::set<std::string> names;
  std::map<std::string, std::string> of_tensors = {};
};

absl::StatusOr<Files> FindFiles(const std::string& folder) {
  const std::string path = StrCat(folder, "/", kIndex);
  if (!Exists(path)) return Files{.names = {kSingleFile}};
  const absl::StatusOr<std::string> text = ReadFile(path, kLongestIndex);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> index = ParseJsonObject(*text, kIndexDepth);
  if (!index.ok()) return InvalidArgumentError(StrCat(path, ": it ", index.status().message()));
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) return InvalidArgumentError(StrCat(path, ": it has no weight_map"));
  Files files;
  for (const auto& [tensor, name] : map->items()) {
    // A name without a path: an index must not lead out of its folder.
    if (!name.is_string() || name.get<std::string>().find('/') != std::string::npos) {
      return InvalidArgumentError(StrCat(path, ": the file of ", tensor, " does not name a file in the same folder"));
    }
    files.names.insert(name.get<std::string>());
    files.of_tensors.emplace(tensor, name.get<std::string>());
  }
  return files;
}

// Every tensor that a decoder needs, with its shape.
std::map<std::string, std::vector<int64_t>> Needed(const DecoderConfig& config) {
  const workload::Decoder& shape = config.shape;
  const DecoderSizes n(shape);
  const int64_t d = n.d;
  const int64_t ff = n.ff;
  const int64_t q = n.q();
  const int64_t kv = n.kv();
  std::map<std::string, std::vector<int64_t>> needed = {{tensor_names::kEmbedding, {n.vocab, d}},
                                                        {tensor_names::kFinalNorm, {d}}};
  if (!shape.base.tied_head) needed[tensor_names::kHead] = {n.vocab, d};
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    const auto module = [&](const char* name) -> std::vector<int64_t>& {
      return needed[tensor_names::OfLayer(layer, name)];
    };
    module("input_layernorm") = {d};
    module("post_attention_layernorm") = {d};
    module("self_attn.o_proj") = {d, q};
    if (shape.output_bias) needed[tensor_names::BiasOfLayer(layer, "self_attn.o_proj")] = {d};
    if (config.joined_products) {
      module("self_attn.qkv_proj") = {n.qkv(), d};
      module("mlp.gate_up_proj") = {2 * ff, d};
      module("mlp.down_proj") = {d, ff};
      continue;
    }
    module("self_attn.q_proj") = {q, d};
    module("self_attn.k_proj") = {kv, d};
    module("self_attn.v_proj") = {kv, d};
    if (shape.attention_bias) {
      needed[tensor_names::BiasOfLayer(layer, "self_attn.q_proj")] = {q};
      needed[tensor_names::BiasOfLayer(layer, "self_attn.k_proj")] = {kv};
      needed[tensor_names::BiasOfLayer(layer, "self_attn.v_proj")] = {kv};
    }
    if (shape.head_norms) module("self_attn.q_norm") = module("self_attn.k_norm") = {n.dim};
    if (shape.output_norms) module("pre_feedforward_layernorm") = module("post_feedforward_layernorm") = {d};
    if (!shape.IsMixture()) {
      module("mlp.gate_proj") = {ff, d};
      module("mlp.up_proj") = {ff, d};
      module("mlp.down_proj") = {d, ff};
      continue;
    }
    module("block_sparse_moe.gate") = {n.experts, d};
    for (int64_t expert = 0; expert < n.experts; ++expert) {
      needed[tensor_names::OfExpert(layer, expert, "w1")] = {ff, d};
      needed[tensor_names::OfExpert(layer, expert, "w3")] = {ff, d};
      needed[tensor_names::OfExpert(layer, expert, "w2")] = {d, ff};
    }
  }
  return needed;
}

// The linear layers that GPTQ and AWQ store in 4 bits; not norms, biases or the router.
bool IsLinearOfLayers(std::string_view name) {
  return name.ends_with("_proj.weight") || (name.ends_with(".weight") && name.find(".experts.") != name.npos);
}

// "….q_proj.weight" becomes "….q_proj.qweight".
std::string PartOf(const std::string& name, const char* part) {
  return StrCat(name.substr(0, name.size() - std::string_view("weight").size()), part);
}

// The tensors that replace a layer [rows, columns] in 4 bits, without the optional g_idx.
absl::Status AddParts(const std::string& name, const std::vector<int64_t>& shape, const PackedFormat& format,
                      std::map<std::string, RequiredTensor>& required) {
  const int64_t rows = shape[0];
  const int64_t columns = shape[1];
  const int64_t group = format.GroupOf(columns);
  if (rows % kCodesPerWord != 0 || columns % kCodesPerWord != 0 || columns % group != 0) {
    return absl::UnimplementedError(StrCat("4 bits of ", name, ", which is ", ShapeText(shape),
                                           ": both must be multiples of 8, and its columns of group_size ", group));
  }
  const bool is_gptq = format.packing == PackedFormat::Packing::kGptq;
  required[PartOf(name, "qweight")] = {
      is_gptq ? std::vector{columns / kCodesPerWord, rows} : std::vector{columns, rows / kCodesPerWord}, true};
  required[PartOf(name, "qzeros")] = {{columns / group, rows / kCodesPerWord}, true};
  required[PartOf(name, "scales")] = {{columns / group, rows}};
  return absl::OkStatus();
}

}  // namespace

namespace tensor_names {

std::string OfLayer(int64_t layer, const std::string& module) {
  return StrCat("model.layers.", layer, ".", module, ".weight");
}

std::string BiasOfLayer(int64_t layer, const std::string& module) {
  return StrCat("model.layers.", layer, ".", module, ".bias");
}

std::string OfExpert(int64_t layer, int64_t expert, const std::string& matrix) {
  return OfLayer(layer, StrCat("block_sparse_moe.experts.", expert, ".", matrix));
}

}  // namespace tensor_names

absl::StatusOr<std::map<std::string, RequiredTensor>> RequiredTensors(const DecoderConfig& config) {
  std::map<std::string, RequiredTensor> required;
  absl::Status status;
  for (const auto& [name, shape] : Needed(config)) {
    if (config.packed && IsLinearOfLayers(name)) {
      status.Update(AddParts(name, shape, *config.packed, required));
    } else {
      required[name] = {shape};
    }
  }
  if (!status.ok()) return status;
  return required;
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  const std::string config_path = StrCat(folder, "/config.json");
  const absl::StatusOr<std::string> config_text = ReadFile(config_path, kLongestConfig);
  if (!config_text.ok()) return config_text.status();
  absl::StatusOr<DecoderConfig> config = ParseConfig(*config_text);
  if (!config.ok()) {
    return absl::Status(config.status().code(),
                        StrCat(config_path, ": ", absl::IsUnimplemented(config.status()) ? "not supported: " : "",
                               config.status().message()));
  }
  Checkpoint checkpoint;
  checkpoint.config_ = *std::move(config);

  const absl::StatusOr<Files> files = FindFiles(folder);
  if (!files.ok()) return files.status();
  for (const std::string& name : files->names) {
    absl::StatusOr<Safetensors> opened = Safetensors::Open(StrCat(folder, "/", name));
    if (!opened.ok()) return opened.status();
    const Safetensors& file = checkpoint.files_.emplace_back(*std::move(opened));
    for (const auto& [tensor, entry] : file.entries()) {
      const auto listed = files->of_tensors.find(tensor);
      if (listed != files->of_tensors.end() && listed->second != name) continue;  // left over from another version
      if (!checkpoint.tensors_.emplace(tensor, Place{&file, &entry}).second) {
        return InvalidArgumentError(StrCat(folder, ": two files hold the tensor ", tensor));
      }
    }
  }
  // A hostile configuration may claim millions of layers; the tensors in the files are the limit.
  if (checkpoint.config_.shape.base.layers * checkpoint.config_.shape.experts >
      static_cast<double>(checkpoint.tensors_.size())) {
    return InvalidArgumentError(StrCat(folder, ": has ", checkpoint.tensors_.size(), " tensors, fewer than its ",
                                       checkpoint.config_.shape.base.layers, " layers need"));
  }
  const bool stores_head = checkpoint.tensors_.contains(tensor_names::kHead);
  if (absl::Status status = checkpoint.CheckTensors(folder); !status.ok()) return status;
  if (absl::Status status = checkpoint.TakeStopIds(folder); !status.ok()) return status;
  if (stores_head && checkpoint.config_.shape.base.tied_head) {
    if (absl::Status status = checkpoint.TakeStoredHead(); !status.ok()) return status;
  }
  return checkpoint;
}

absl::Status Checkpoint::CheckTensors(const std::string& folder) const {
  auto required = RequiredTensors(config_);
  if (!required.ok()) {
    return absl::Status(required.status().code(), StrCat(folder, ": not supported: ", required.status().message()));
  }
  if (tensors_.contains(tensor_names::kHead)) (*required)[tensor_names::kHead] = required->at(tensor_names::kEmbedding);
  for (const auto& [name, stored] : *required) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return InvalidArgumentError(StrCat(folder, ": lacks the tensor ", name));
    const Safetensors::Entry& entry = *found->second.entry;
    if (entry.shape != stored.shape) {
      return InvalidArgumentError(StrCat(folder, ": the tensor ", name, " is ", ShapeText(entry.shape),
                                         " where config.json implies ", ShapeText(stored.shape)));
    }
    const bool fits = stored.is_words ? entry.type == at::kInt : c10::isFloatingType(entry.type);
    if (!fits) {
      return InvalidArgumentError(StrCat(folder, ": the tensor ", name, " holds ", entry.dtype, " instead of ",
                                         stored.is_words ? "32-bit words" : "floating point"));
    }
  }
  return config_.packed ? CheckOrderOfColumns(folder) : absl::OkStatus();
}

absl::Status Checkpoint::CheckOrderOfColumns(const std::string& folder) const {
  for (const auto& [layer, shape] : Needed(config_)) {
    if (!IsLinearOfLayers(layer)) continue;
    const std::string name = PartOf(layer, "g_idx");
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      if (!config_.packed->orders_by_activation) continue;
      return InvalidArgumentError(StrCat(folder, ": lacks the tensor ", name, ", which desc_act implies"));
    }
    const auto& [file, entry] = found->second;
    const int64_t columns = shape[1];
    if (entry->type != at::kInt || entry->shape != std::vector{columns}) {
      return InvalidArgumentError(StrCat(folder, ": the tensor ", name, " must be ", columns, " 32-bit words"));
    }
    const absl::StatusOr<at::Tensor> groups = file->ReadRows(*entry, 0, columns);
    if (!groups.ok()) return groups.status();
    const auto* const of = groups->const_data_ptr<int32_t>();
    for (int64_t i = 0; i < columns; ++i) {
      if (of[i] == i / config_.packed->GroupOf(columns)) continue;
      return absl::UnimplementedError(StrCat(folder, ": not supported: desc_act, by which ", name,
                                             " spreads the columns of a group over the row: a product "
                                             "would gather them one by one (quantize the model with desc_act: false)"));
    }
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::TakeStopIds(const std::string& folder) {
  const std::string path = StrCat(folder, "/", kGenerationConfig);
  if (!Exists(path)) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadFile(path, kLongestConfig);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<int64_t>> ids = ParseStopIds(*text);
  if (!ids.ok()) return InvalidArgumentError(StrCat(path, ": ", ids.status().message()));
  if (!ids->empty()) config_.stop_ids = *std::move(ids);
  return absl::OkStatus();
}

absl::Status Checkpoint::TakeStoredHead() {
  const auto& [head_file, head] = tensors_.at(tensor_names::kHead);
  bool differs = false;
  absl::Status of_head;
  const absl::Status of_embedding = Read(tensor_names::kEmbedding, [&](int64_t first, const at::Tensor& rows) {
    if (differs || !of_head.ok()) return;
    const absl::StatusOr<at::Tensor> same_rows = head_file->ReadRows(*head, first, rows.size(0));
    of_head = same_rows.status();
    differs = same_rows.ok() && !same_rows->to(at::kFloat).equal(rows.to(at::kFloat));
  });
  for (const absl::Status& status : {of_embedding, of_head}) {
    if (!status.ok()) return status;
  }
  if (!differs) return absl::OkStatus();
  config_.shape.base.tied_head = false;
  notes_.push_back(StrCat("config.json ties the head to the embedding, but ", tensor_names::kHead,
                          " holds other values; they are used, as transformers does"));
  return absl::OkStatus();
}

at::ScalarType Checkpoint::StoredType() const { return tensors_.at(tensor_names::kEmbedding).entry->type; }

std::vector<Checkpoint::StoredTensor> Checkpoint::Tensors() const {
  std::vector<StoredTensor> tensors;
  const auto add = [&](const std::string& name, double parameters_each) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return;
    const Safetensors::Entry* const entry = found->second.entry;
    const auto elements = static_cast<double>((entry->end - entry->begin) / c10::elementSize(entry->type));
    tensors.push_back({name, entry, elements * parameters_each});
  };
  for (const auto& [name, shape] : Needed(config_)) {
    if (!IsPacked(name)) {
      add(name, 1);
      continue;
    }
    for (const char* part : {"g_idx", "qzeros", "scales"}) add(PartOf(name, part), 0);
    add(PartOf(name, "qweight"), kCodesPerWord);
  }
  return tensors;
}

absl::Status Checkpoint::Read(const std::string& name,
                              const std::function<void(int64_t first, const at::Tensor& rows)>& take) const {
  if (IsPacked(name)) {
    return ReadPacked(name, [&](int64_t first, const PackedRows& rows) { take(first, rows.Dequantized()); });
  }
  const auto& [file, entry] = tensors_.at(name);
  const int64_t block = RowsOfABlock(entry->RowBytes());
  for (int64_t first = 0; first < entry->rows(); first += block) {
    const absl::StatusOr<at::Tensor> rows = file->ReadRows(*entry, first, std::min(block, entry->rows() - first));
    if (!rows.ok()) return rows.status();
    take(first, *rows);
  }
  return absl::OkStatus();
}

bool Checkpoint::IsPacked(const std::string& name) const { return config_.packed && IsLinearOfLayers(name); }

absl::Status Checkpoint::ReadPacked(const std::string& name,
                                    const std::function<void(int64_t first, const PackedRows& rows)>& take) const {
  PackedLayer layer{.format = *config_.packed};
  // Rows of the layer are columns in the files, so each part is read as a whole, half a byte for each weight.
  for (const auto& [part, tensor] :
       {std::pair("qweight", &layer.qweight), std::pair("qzeros", &layer.qzeros), std::pair("scales", &layer.scales)}) {
    const auto& [file, entry] = tensors_.at(PartOf(name, part));
    absl::StatusOr<at::Tensor> read = file->ReadRows(*entry, 0, entry->rows());
    if (!read.ok()) return read.status();
    *tensor = *std::move(read);
  }
  const int64_t block = RowsOfABlock(sizeof(float) * static_cast<uint64_t>(layer.columns()));
  for (int64_t first = 0; first < layer.rows(); first += block) {
    take(first, layer.Rows(first, std::min(block, layer.rows() - first)));
  }
  return absl::OkStatus();
}

}  // namespace roofbench::models
