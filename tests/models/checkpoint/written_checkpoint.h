// SPDX-License-Identifier: Apache-2.0
// Checkpoints for tests, written field by field, so that each can be broken in one place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/base/temp_folder.h"

namespace roofbench::models {

class TemporaryFolder : public TempFolder {
 public:
  std::string path() const { return std::filesystem::path(*this / "").parent_path().string(); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
  }
};

// Eight bytes of length, the header, the data.
inline std::string SafetensorsText(const std::string& header, const std::string& data) {
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return length + header + data;
}

// fp32 tensors side by side, with zeros for data.
inline std::pair<nlohmann::json, std::string> PackTensors(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const auto& [name, shape] : tensors) {
    std::size_t bytes = sizeof(float);
    for (const int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  return {header, std::string(end, '\0')};
}

inline nlohmann::json TinyConfig() {
  return {{"model_type", "llama"},    {"vocab_size", 10},       {"hidden_size", 8},
          {"intermediate_size", 12},  {"num_hidden_layers", 1}, {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"rms_norm_eps", 1e-5},   {"tie_word_embeddings", true},
          {"rope_theta", 10000.0},    {"hidden_act", "silu"},   {"max_position_embeddings", 64}};
}

inline std::vector<std::pair<std::string, std::vector<int64_t>>> TinyTensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {10, 8}},      {"model.norm.weight", {8}},
          {layer + "input_layernorm.weight", {8}},     {layer + "post_attention_layernorm.weight", {8}},
          {layer + "self_attn.q_proj.weight", {8, 8}}, {layer + "self_attn.k_proj.weight", {4, 8}},
          {layer + "self_attn.v_proj.weight", {4, 8}}, {layer + "self_attn.o_proj.weight", {8, 8}},
          {layer + "mlp.gate_proj.weight", {12, 8}},   {layer + "mlp.up_proj.weight", {12, 8}},
          {layer + "mlp.down_proj.weight", {8, 12}}};
}

}  // namespace roofbench::models
