// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/architecture.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace roofbench::models {
namespace {

using std::string_view;

constexpr string_view kWindowKeys[] = {"sliding_window"};
constexpr string_view kMixtralKeys[] = {"sliding_window",       "num_local_experts",   "num_experts_per_tok",
                                        "router_aux_loss_coef", "router_jitter_noise", "output_router_logits"};
constexpr string_view kQwen3Keys[] = {"sliding_window", "max_window_layers", "use_sliding_window"};
// It has its biases whatever attention_bias says.
constexpr string_view kQwen2Keys[] = {"sliding_window", "max_window_layers", "use_sliding_window", "attention_bias"};

// sliding_window_size and cache_implementation: of older conversions, which nothing reads.
constexpr string_view kGemma2Keys[] = {"sliding_window",        "sliding_window_size",    "cache_implementation",
                                       "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                                       "hidden_activation"};

// What is left out is what transformers' configuration of the architecture has for it.
constexpr Architecture kArchitectures[] = {
    {.type = "llama", .implied_kv_heads = true},
    {.type = "mistral", .windows = Windows::kAll, .usual_window = 4096, .usual_positions = 131072, .keys = kWindowKeys},
    {.type = "mixtral",
     .mixture = true,
     .windows = Windows::kAll,
     .usual_positions = 131072,
     .usual_theta = 1000000,
     .usual_rms_epsilon = 1e-5,
     .keys = kMixtralKeys},
    {.type = "qwen2",
     .windows = Windows::kLate,
     .attention_bias = true,
     .usual_window = 4096,
     .usual_positions = 32768,
     .keys = kQwen2Keys},
    {.type = "qwen3",
     .windows = Windows::kLate,
     .head_norms = true,
     .head_size = 128,
     .usual_window = 4096,
     .usual_positions = 32768,
     .keys = kQwen3Keys},
    {.type = "gemma2",
     .windows = Windows::kAlternating,
     .head_size = 256,
     .tied_head = true,
     .is_gemma = true,
     .usual_window = 4096,
     .usual_positions = 8192,
     .keys = kGemma2Keys},
};

// What this program reads, of every architecture.
constexpr string_view kReadKeys[] = {"model_type",         "hidden_act",          "hidden_size",
                                     "intermediate_size",  "num_hidden_layers",   "num_attention_heads",
                                     "vocab_size",         "tie_word_embeddings", "num_key_value_heads",
                                     "head_dim",           "rms_norm_eps",        "max_position_embeddings",
                                     "rope_theta",         "rope_scaling",        "rope_parameters",
                                     "layer_types",        "eos_token_id",        "original_max_position_embeddings",
                                     "quantization_config"};

// What transformers writes beside it, and what does not change the logits of a text: the keys of its PretrainedConfig
// (releases 4 and 5), those of training, and the notes of other tools (max_sequence_length: of Llama 1's conversions).
constexpr string_view kHarmlessKeys[] = {"add_cross_attention",
                                         "architectures",
                                         "attention_dropout",
                                         "attn_implementation",
                                         "auto_map",
                                         "bad_words_ids",
                                         "begin_suppress_tokens",
                                         "bos_token_id",
                                         "chunk_size_feed_forward",
                                         "cross_attention_hidden_size",
                                         "decoder_start_token_id",
                                         "diversity_penalty",
                                         "do_sample",
                                         "dtype",
                                         "early_stopping",
                                         "embd_pdrop",
                                         "encoder_no_repeat_ngram_size",
                                         "epsilon_cutoff",
                                         "eta_cutoff",
                                         "experts_implementation",
                                         "exponential_decay_length_penalty",
                                         "finetuning_task",
                                         "forced_bos_token_id",
                                         "forced_eos_token_id",
                                         "gradient_checkpointing",
                                         "hidden_dropout",
                                         "id2label",
                                         "initializer_range",
                                         "is_decoder",
                                         "is_encoder_decoder",
                                         "is_llama_config",
                                         "label2id",
                                         "length_penalty",
                                         "max_length",
                                         "max_sequence_length",
                                         "min_length",
                                         "name_or_path",
                                         "no_repeat_ngram_size",
                                         "num_beam_groups",
                                         "num_beams",
                                         "num_labels",
                                         "num_return_sequences",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "output_scores",
                                         "pad_token_id",
                                         "prefix",
                                         "pretraining_tp",
                                         "problem_type",
                                         "pruned_heads",
                                         "remove_invalid_values",
                                         "repetition_penalty",
                                         "resid_pdrop",
                                         "return_dict",
                                         "return_dict_in_generate",
                                         "sep_token_id",
                                         "suppress_tokens",
                                         "task_specific_params",
                                         "temperature",
                                         "tf_legacy_loss",
                                         "tie_encoder_decoder",
                                         "tie_last_hidden_states",
                                         "tokenizer_class",
                                         "top_k",
                                         "top_p",
                                         "torch_dtype",
                                         "torchscript",
                                         "transformers.js_config",
                                         "transformers_version",
                                         "typical_p",
                                         "unsloth_fixed",
                                         "unsloth_version",
                                         "use_bfloat16",
                                         "use_cache"};

constexpr string_view kRopeKeys[] = {"rope_type",
                                     "type",
                                     "rope_theta",
                                     "factor",
                                     "low_freq_factor",
                                     "high_freq_factor",
                                     "original_max_position_embeddings"};

bool Has(std::span<const string_view> keys, string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Set to what it is without being said: all pairs of a head are turned.
bool IsUsual(string_view key, const nlohmann::json& value) { return key == "partial_rotary_factor" && value == 1; }

absl::Status UnknownKey(const std::string& key, const char* where) {
  return absl::UnimplementedError(
      absl::StrCat("a model with ", Shown(key), where,
                   ", whose effect is not known (set it to null if the logits do not depend on it)"));
}

}  // namespace

std::string Shown(const std::string& text) { return text.substr(0, 60); }

const Architecture* FindArchitecture(string_view type) {
  const auto* const found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                         [&](const Architecture& known) { return known.type == type; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

std::string ArchitectureNames() {
  std::string names;
  for (const Architecture& known : kArchitectures) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(known.type));
  }
  return names;
}

bool IsSet(const nlohmann::json& value) { return !value.is_null() && !(value.is_boolean() && !value.get<bool>()); }

absl::Status CheckKeys(const nlohmann::json& config, const Architecture& architecture) {
  for (const auto& [key, value] : config.items()) {
    // The one key that turns something off which is on without it: transformers then lets tokens see those after them.
    if (key == "is_causal") {
      if (IsSet(value)) continue;
      return absl::UnimplementedError("a model with is_causal: false");
    }
    // Names that begin with _ are transformers' own notes.
    if (!IsSet(value) || key.starts_with('_') || Has(kReadKeys, key) || Has(kHarmlessKeys, key) ||
        Has(architecture.keys, key) || IsUsual(key, value)) {
      continue;
    }
    return UnknownKey(key, "");
  }
  return absl::OkStatus();
}

absl::Status CheckRopeKeys(const nlohmann::json& rope) {
  for (const auto& [key, value] : rope.items()) {
    if (IsSet(value) && !Has(kRopeKeys, key) && !IsUsual(key, value)) return UnknownKey(key, " of its positions");
  }
  return absl::OkStatus();
}

}  // namespace roofbench::models
