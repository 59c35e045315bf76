// SPDX-License-Identifier: Apache-2.0
// The model types whose checkpoints are read, and the keys that their config.json may have. What a key that nobody
// knows would change cannot be guessed, so a configuration with one is refused by its name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace roofbench::models {

// The layers with a window where layer_types, which goes before it for the last two, does not say: none, all, those
// from max_window_layers on where use_sliding_window is set, or the first, the third and so on.
enum class Windows { kNone, kAll, kLate, kAlternating };

struct Architecture {
  std::string_view type;  // model_type
  bool mixture = false;   // of experts, as Mixtral names them
  Windows windows = Windows::kNone;
  bool attention_bias = false;    // queries, keys and values have one, whatever the configuration says
  bool head_norms = false;        // of queries and keys
  bool implied_kv_heads = false;  // num_key_value_heads may be left out: as many as heads
  double head_size = 0;           // where head_dim is left out; 0: hidden_size / num_attention_heads
  bool tied_head = false;         // where tie_word_embeddings is left out
  // Norms of outputs, one added to the weights of all norms, a scaled embedding, GELU, and caps.
  bool is_gemma = false;
  double usual_window = 0;                      // where sliding_window is left out; 0: none
  double usual_positions = 2048;                // where max_position_embeddings is left out
  double usual_theta = 10000;                   // where rope_theta is left out
  double usual_rms_epsilon = 1e-6;              // where rms_norm_eps is left out
  std::span<const std::string_view> keys = {};  // beside those that all have
};

// nullptr for any other type.
const Architecture* FindArchitecture(std::string_view type);
// "llama, mistral, …"
std::string ArchitectureNames();

// Neither null nor false.
bool IsSet(const nlohmann::json& value);

// So much of a stranger's name as a person would read.
std::string Shown(const std::string& text);

// Unimplemented with the first key that is set and not known.
absl::Status CheckKeys(const nlohmann::json& config, const Architecture& architecture);
// The same of rope_parameters or rope_scaling.
absl::Status CheckRopeKeys(const nlohmann::json& rope);

}  // namespace roofbench::models
