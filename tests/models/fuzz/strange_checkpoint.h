// SPDX-License-Identifier: Apache-2.0
// Checkpoints from untrusted sources: valid ones of random shapes, and the results of changing some of their text,
// numbers or bytes. A seed selects the case.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/models/checkpoint/written_checkpoint.h"

namespace roofbench::models {

// The same numbers on every machine, which the distributions of the standard library do not guarantee.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}

  uint64_t Bits() { return bits_(); }
  std::size_t Below(std::size_t count) { return static_cast<std::size_t>(bits_() % count); }
  bool OneIn(std::size_t count) { return Below(count) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& choices) {
    return choices[Below(choices.size())];
  }
  // Approximately normal.
  float Small() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(Below(2001)) / 1000 - 1;
    return sum / 4;
  }

 private:
  std::mt19937_64 bits_;
};

class StrangeCheckpoint {
 public:
  explicit StrangeCheckpoint(uint64_t seed) : dice_(seed) {
    MakeConfig();
    MakeTensors();
    for (std::size_t changes = dice_.Below(3); changes > 0; --changes) Change();
    Finish();
  }

  void WriteTo(const TemporaryFolder& folder) const {
    folder.Write("config.json", config_text_);
    folder.Write("model.safetensors", file_);
    if (!index_.empty()) folder.Write("model.safetensors.index.json", index_);
  }

  Dice& dice() { return dice_; }

 private:
  using Json = nlohmann::json;

  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
    bool is_words = false;  // the bits of the values, as int32
  };

  void MakeConfig() {
    type_ = dice_.Of<std::string>({"llama", "mixtral", "mixtral", "mistral", "qwen2", "qwen3", "gemma2"});
    is_mixture_ = type_ == "mixtral";
    const bool fits_int4 = dice_.OneIn(2);
    const auto size = [&](const std::vector<int64_t>& whole, const std::vector<int64_t>& any) {
      return dice_.Of(fits_int4 ? whole : any);
    };
    heads_ = dice_.Of<int64_t>({1, 2, 4});
    kv_heads_ = heads_ == 4 ? dice_.Of<int64_t>({1, 2, 4}) : heads_;
    dim_ = size({16, 32}, {2, 6, 8, 10, 12, 34, 100, 130, 258});
    if (fits_int4 && heads_ * dim_ % 32 != 0) dim_ = 32;
    width_ = size({32, 64}, {1, 2, 8, 20, 33, 64});
    hidden_ = size({32, 64}, {1, 12, 40, 65});
    vocab_ = size({16, 48}, {1, 2, 10, 33});
    experts_ = dice_.Of<int64_t>({1, 2, 4, 5});
    tied_ = dice_.OneIn(2);
    layers_ = dice_.Of<int64_t>({1, 2});
    config_ = {{"model_type", type_},
               {"vocab_size", vocab_},
               {"hidden_size", width_},
               {"intermediate_size", hidden_},
               {"num_hidden_layers", layers_},
               {"num_attention_heads", heads_},
               {"num_key_value_heads", kv_heads_},
               {"head_dim", dim_},
               {"rms_norm_eps", 1e-5},
               {"tie_word_embeddings", tied_},
               {"rope_theta", 10000.0},
               {"hidden_act", "silu"},
               {"eos_token_id", 1},
               {"max_position_embeddings", 64}};
    if (is_mixture_) {
      config_["num_local_experts"] = experts_;
      config_["num_experts_per_tok"] = 1 + static_cast<int64_t>(dice_.Below(static_cast<std::size_t>(experts_)));
    }
    if ((is_mixture_ || type_ == "mistral") && dice_.OneIn(2)) config_["sliding_window"] = dice_.Of<int64_t>({1, 2, 5});
    if (type_ == "gemma2") {
      config_["sliding_window"] = dice_.Of<int64_t>({1, 2, 5, 4096});
      config_["query_pre_attn_scalar"] = dice_.Of<double>({1, 16, 256});
      if (dice_.OneIn(2)) config_["attn_logit_softcapping"] = dice_.Of<double>({0, 1e-30, 3, 50, 1e30});
      if (dice_.OneIn(2)) config_["final_logit_softcapping"] = dice_.Of<double>({0, 1e-30, 3, 30, 1e30});
    }
    if (type_.starts_with("qwen") && dice_.OneIn(2)) {
      config_.update({{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}});
    }
    if (dice_.OneIn(3)) {
      config_["rope_parameters"] = {{"rope_type", "llama3"},
                                    {"factor", 8.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 32}};
    }
    if (!dice_.OneIn(6)) return;
    packing_ = dice_.Of<std::string>({"gptq", "awq"});
    group_ = dice_.Of<int64_t>({-1, 16, 32, 32});
    config_["quantization_config"] = {{"quant_method", packing_}, {"bits", 4}, {"group_size", group_}};
    if (packing_ == "awq") config_["quantization_config"].update({{"zero_point", true}, {"version", "gemm"}});
    if (packing_ == "gptq") config_["quantization_config"].update({{"desc_act", false}, {"sym", dice_.OneIn(2)}});
  }

  // Adds a layer [rows, columns] of 4 bits. Any bits are valid codes.
  void AddPacked(const std::string& name, int64_t rows, int64_t columns) {
    const int64_t groups = std::max<int64_t>(1, group_ == -1 ? 1 : columns / group_);
    Add(name, {groups, rows}, ".scales");
    const auto add_words = [&](const char* kind, const std::vector<int64_t>& shape) {
      Add(name, shape, kind);
      tensors_.back().is_words = true;
      for (float& value : tensors_.back().values) value = std::bit_cast<float>(static_cast<uint32_t>(dice_.Bits()));
    };
    add_words(".qzeros", {groups, rows / 8});
    if (packing_ == "awq") return add_words(".qweight", {columns, rows / 8});
    add_words(".qweight", {columns / 8, rows});
    if (dice_.OneIn(2)) return;
    add_words(".g_idx", {columns});
    std::vector<float>& order = tensors_.back().values;
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = std::bit_cast<float>(static_cast<uint32_t>(i) / static_cast<uint32_t>(columns / groups));
    }
  }

  // A linear layer, as the configuration stores it.
  void AddLinear(const std::string& name, int64_t rows, int64_t columns) {
    const bool fits = rows % 8 == 0 && columns % 8 == 0;
    if (packing_.empty() || !fits) return Add(name, {rows, columns});
    AddPacked(name, rows, columns);
  }

  void Add(const std::string& name, const std::vector<int64_t>& shape, const char* kind = ".weight") {
    std::size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<std::size_t>(size);
    Tensor tensor{name + kind, shape, std::vector<float>(count)};
    for (float& value : tensor.values) value = dice_.Small();
    tensors_.push_back(std::move(tensor));
  }

  void MakeTensors() {
    const int64_t q = heads_ * dim_;
    const int64_t kv = kv_heads_ * dim_;
    Add("model.embed_tokens", {vocab_, width_});
    Add("model.norm", {width_});
    if (!tied_) Add("lm_head", {vocab_, width_});
    for (int64_t i = 0; i < layers_; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      Add(layer + "input_layernorm", {width_});
      Add(layer + "post_attention_layernorm", {width_});
      AddLinear(layer + "self_attn.q_proj", q, width_);
      AddLinear(layer + "self_attn.k_proj", kv, width_);
      AddLinear(layer + "self_attn.v_proj", kv, width_);
      AddLinear(layer + "self_attn.o_proj", width_, q);
      if (type_ == "qwen2") {
        Add(layer + "self_attn.q_proj", {q}, ".bias");
        Add(layer + "self_attn.k_proj", {kv}, ".bias");
        Add(layer + "self_attn.v_proj", {kv}, ".bias");
      }
      if (type_ == "gemma2") {
        Add(layer + "pre_feedforward_layernorm", {width_});
        Add(layer + "post_feedforward_layernorm", {width_});
      }
      if (type_ == "qwen3") {
        Add(layer + "self_attn.q_norm", {dim_});
        Add(layer + "self_attn.k_norm", {dim_});
      }
      if (!is_mixture_) {
        AddLinear(layer + "mlp.gate_proj", hidden_, width_);
        AddLinear(layer + "mlp.up_proj", hidden_, width_);
        AddLinear(layer + "mlp.down_proj", width_, hidden_);
        continue;
      }
      Add(layer + "block_sparse_moe.gate", {experts_, width_});
      for (int64_t e = 0; e < experts_; ++e) {
        const std::string expert = layer + "block_sparse_moe.experts." + std::to_string(e) + ".";
        AddLinear(expert + "w1", hidden_, width_);
        AddLinear(expert + "w3", hidden_, width_);
        AddLinear(expert + "w2", width_, hidden_);
      }
    }
  }

  // Values first, because readers trust them most: other changes are mostly refused.
  void Change() {
    switch (dice_.Below(12)) {
      case 0:
        return ChangeConfig();
      case 1:
        after_ = After::kHeader;
        return;
      case 2:
        after_ = After::kBytes;
        return;
      case 3:
        after_ = After::kFiles;
        return;
      default:
        return ChangeValues();
    }
  }

  // Rarely NaN or infinite: a tensor with such a number is not even stored.
  float StrangeNumber() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (dice_.OneIn(16)) return dice_.Of<float>({std::nanf(""), kInfinity, -kInfinity});
    return dice_.Of<float>({3e38F, -3e38F, 1e-45F, 65504, 70000, 0, 2e19F, -1e30F, 1e9F});
  }

  void ChangeValues() {
    Tensor& tensor = tensors_[dice_.Below(tensors_.size())];
    const std::size_t kind = dice_.Below(4);
    const float strange = StrangeNumber();
    if (kind == 0) tensor.values[dice_.Below(tensor.values.size())] = strange;
    if (kind == 1) std::fill(tensor.values.begin(), tensor.values.end(), strange);
    for (float& value : tensor.values) {
      if (kind == 2) value *= std::bit_cast<float>(static_cast<uint32_t>(dice_.Bits()) & 0xbf7fffffU);
      if (kind == 3) value *= 1e19F;
    }
  }

  Json StrangeJson() {
    const std::vector<Json> strange = {0,
                                       -1,
                                       1,
                                       2,
                                       3,
                                       7,
                                       16,
                                       1 << 22,
                                       4294967296,
                                       1e308,
                                       1e-308,
                                       -0.0,
                                       1.5,
                                       true,
                                       false,
                                       nullptr,
                                       "",
                                       "x",
                                       "\x1b[31m",
                                       "8",
                                       INT64_MAX,
                                       INT64_MIN,
                                       UINT64_MAX,
                                       Json::array(),
                                       Json::array({1, "x", -5, 1e300}),
                                       Json::object(),
                                       {{"rope_type", "llama3"}},
                                       "gptq",
                                       "awq",
                                       4,
                                       {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", -1}},
                                       {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}},
                                       {{"type", "yarn"}}};
    return dice_.Of(strange);
  }

  void ChangeConfig() {
    if (dice_.OneIn(4)) {
      config_[dice_.Of<std::string>({"attention_bias", "sliding_window", "rope_scaling", "quantization_config",
                                     "eos_token_id", "rope_parameters", "mlp_bias", "layer_types", "use_sliding_window",
                                     "max_window_layers", "head_dim"})] = StrangeJson();
      return;
    }
    Json* object = &config_;
    if (config_.contains("rope_parameters") && config_["rope_parameters"].is_object() && dice_.OneIn(3)) {
      object = &config_["rope_parameters"];
    }
    if (config_.contains("quantization_config") && config_["quantization_config"].is_object() && dice_.OneIn(2)) {
      object = &config_["quantization_config"];
    }
    if (object->empty()) return;
    auto chosen = object->begin();
    std::advance(chosen, dice_.Below(object->size()));
    if (dice_.OneIn(6)) {
      object->erase(chosen);
    } else {
      *chosen = StrangeJson();
    }
  }

  void ChangeHeader(Json& header) {
    auto chosen = header.begin();
    std::advance(chosen, dice_.Below(header.size()));
    Json& fields = *chosen;
    switch (dice_.Below(5)) {
      case 0:
        header.erase(chosen);
        return;
      case 1:
        fields = StrangeJson();
        return;
      case 2:
        fields["dtype"] =
            dice_.Of<std::string>({"F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F4", ""});
        return;
      case 3:
        fields["shape"] =
            dice_.Of<Json>({Json::array(), {0}, {-1}, {1, 1}, {uint64_t{1} << 53, 1024}, {1.5}, StrangeJson()});
        return;
      default:
        fields["data_offsets"] =
            dice_.Of<Json>({{0, 0}, {4, 0}, {0, uint64_t{1} << 53}, {-4, 4}, {0}, {UINT64_MAX, 4}, StrangeJson()});
    }
  }

  void ChangeBytes(std::string& text) {
    if (text.empty()) return;
    for (std::size_t changes = 1 + dice_.Below(4); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = dice_.Below(dice_.OneIn(2) ? text.size() : std::min<std::size_t>(text.size(), 64));
      switch (dice_.Below(5)) {
        case 0:
          text[at] = static_cast<char>(dice_.Bits());
          break;
        case 1:
          text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << dice_.Below(8)));
          break;
        case 2:
          text.resize(at);
          break;
        case 3:
          text.insert(at, 1 + dice_.Below(9), static_cast<char>(dice_.Bits()));
          break;
        default:
          text.erase(at, 1 + dice_.Below(9));
      }
    }
  }

  // The bytes of a value in the precision of its tensor.
  static std::string Bytes(float value, const std::string& type) {
    std::string bytes;
    const auto append = [&](auto number) { bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number)); };
    if (type == "I32" || type == "F32") append(value);
    if (type == "F64") append(static_cast<double>(value));
    if (type == "BF16") append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    // Any 16 bits are a valid fp16 number.
    if (type == "F16") append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 15));
    return bytes;
  }

  void Finish() {
    const std::string type = dice_.Of<std::string>({"F32", "F32", "BF16", "F16", "F64"});
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const Tensor& tensor : tensors_) {
      const std::size_t begin = data.size();
      const std::string of = tensor.is_words ? "I32" : type;
      for (const float value : tensor.values) data += Bytes(value, of);
      header[tensor.name] = {{"dtype", of}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    if (after_ == After::kHeader) ChangeHeader(header);
    config_text_ = config_.dump(-1, ' ', false, Json::error_handler_t::replace);
    file_ = SafetensorsText(header.dump(-1, ' ', false, Json::error_handler_t::replace), data);
    if (after_ == After::kBytes) ChangeBytes(dice_.OneIn(3) ? config_text_ : file_);
    if (after_ != After::kFiles) return;
    index_ = dice_
                 .Of<Json>({{{"weight_map", {{"a", "model.safetensors"}}}},
                            {{"weight_map", {{"a", "model.safetensors"}, {"b", "config.json"}}}},
                            {{"weight_map", {{"a", "../model.safetensors"}}}},
                            {{"weight_map", {{"a", "."}}}},
                            {{"weight_map", {{"a", StrangeJson()}}}},
                            {{"weight_map", StrangeJson()}}})
                 .dump();
    if (dice_.OneIn(2)) ChangeBytes(index_);
  }

  enum class After { kNothing, kHeader, kBytes, kFiles };

  Dice dice_;
  std::string type_;
  bool is_mixture_ = false;
  bool tied_ = false;
  int64_t vocab_ = 1;
  int64_t width_ = 1;
  int64_t hidden_ = 1;
  int64_t layers_ = 1;
  int64_t heads_ = 1;
  int64_t kv_heads_ = 1;
  int64_t dim_ = 2;
  int64_t experts_ = 1;
  std::string packing_;  // quant_method of linear layers in 4 bits
  int64_t group_ = 32;
  Json config_;
  std::vector<Tensor> tensors_;
  After after_ = After::kNothing;
  std::string config_text_;
  std::string file_;
  std::string index_;
};

}  // namespace roofbench::models
