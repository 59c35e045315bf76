// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/decoder_config.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace roofbench::models {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Configurations from Hugging Face, with their published parameter counts: no key is refused or misread.
struct Published {
  const char* name;
  const char* text;
  double parameters;
  double theta;
  double window = 0;
  bool stretched = false;
};

const Published kPublished[] = {
    {.name = "llama_7b",  // a conversion of the first release
     .text = R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 2048,
  "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "pad_token_id": 0, "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "torch_dtype": "float16",
  "transformers_version": "4.28.0.dev0", "use_cache": true, "vocab_size": 32000})",
     .parameters = 6738415616,
     .theta = 10000},
    {.name = "Llama_3_1_8B_Instruct",
     .text = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
  "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": true,
  "vocab_size": 128256})",
     .parameters = 8030261248,
     .theta = 500000,
     .stretched = true},
    // Saved again by transformers 5.
    {.name = "Llama_3_2_1B",
     .text = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "dtype": "bfloat16", "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_parameters": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_theta": 500000.0, "rope_type": "llama3"},
  "tie_word_embeddings": true, "transformers_version": "5.23.0", "use_cache": true, "vocab_size": 128256})",
     .parameters = 1235814400,
     .theta = 500000,
     .stretched = true},
    {.name = "SmolLM2_135M_Instruct",
     .text = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
  "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
  "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9,
  "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
  "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152})",
     .parameters = 134515008,
     .theta = 100000},
    {.name = "Mistral_7B_v0_1",
     .text = R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})",
     .parameters = 7241732096,
     .theta = 10000,
     .window = 4096},
    {.name = "Mixtral_8x7B",
     .text = R"({"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0", "use_cache": true,
  "vocab_size": 32000})",
     .parameters = 46702792704,
     .theta = 1000000},
    {.name = "Qwen2_5_0_5B_Instruct",
     .text = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.43.1", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
     .parameters = 494032768,
     .theta = 1000000},
    {.name = "Gemma_2_2B",
     .text = R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
  "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216,
  "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32", "transformers_version": "4.42.4",
  "use_cache": true, "vocab_size": 256000})",
     .parameters = 2614341888,
     .theta = 10000,
     .window = 4096},
    {.name = "DeepSeek_R1_0528_Qwen3_8B",
     .text = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 131072, "max_window_layers": 36,
  "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
  "original_max_position_embeddings": 32768, "attn_factor": 0.8782488562869419}, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
     .parameters = 8190735360,
     .theta = 1000000,
     .stretched = true},
    {.name = "Phi_4_mini_instruct",
     .text = R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "bos_token_id": 199999, "embd_pdrop": 0.0,
  "eos_token_id": 200020,
  "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192,
  "interpolate_factor": 1, "lm_head_bias": false, "max_position_embeddings": 131072, "mlp_bias": false, "model_type":
  "phi3", "num_attention_heads": 24, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "original_max_position_embeddings": 4096, "pad_token_id": 199999, "partial_rotary_factor": 0.75, "resid_pdrop": 0.0,
  "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor": FACTORS, "short_factor": FACTORS,
  "type": "longrope"}, "rope_theta": 10000.0, "sliding_window": 262144,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": true,
  "vocab_size": 200064})",
     .parameters = 3836021760,
     .theta = 10000,
     .window = 262144,
     .stretched = true},
};

class PublishedConfig : public testing::TestWithParam<Published> {};

TEST_P(PublishedConfig, IsRead) {
  // A factor for each of 48 pairs.
  const std::string factors = "[" + absl::StrJoin(std::vector<double>(48, 1.5), ",") + "]";
  const absl::StatusOr<DecoderConfig> config =
      ParseConfig(absl::StrReplaceAll(GetParam().text, {{"FACTORS", factors}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shape.Parameters(), GetParam().parameters);
  EXPECT_EQ(config->rope_theta, GetParam().theta);
  EXPECT_EQ(config->shape.window, GetParam().window);
  EXPECT_EQ(config->stretched.has_value(), GetParam().stretched);
  EXPECT_FALSE(config->stop_ids.empty());
}

INSTANTIATE_TEST_SUITE_P(Each, PublishedConfig, testing::ValuesIn(kPublished),
                         [](const auto& instance) { return std::string(instance.param.name); });

// Sizes only, changed by a JSON object.
json Config(const char* type, const char* change = "{}") {
  json config = {{"model_type", type},      {"vocab_size", 10},       {"hidden_size", 8},
                 {"intermediate_size", 12}, {"num_hidden_layers", 1}, {"num_attention_heads", 2},
                 {"num_key_value_heads", 2}};
  if (config["model_type"] == "mixtral") config.update({{"num_local_experts", 2}, {"num_experts_per_tok", 1}});
  config.update(json::parse(change));
  return config;
}

DecoderConfig Read(const char* type, const char* change = "{}") {
  return ParseConfig(Config(type, change).dump()).value();
}

// Those of transformers, release 5.
TEST(ParseConfig, DefaultsAreThoseOfTheArchitecture) {
  EXPECT_EQ(Read("llama").shape.window, 0);
  EXPECT_EQ(Read("mistral").shape.window, 4096);
  EXPECT_EQ(Read("mistral", R"({"sliding_window": null})").shape.window, 0);
  EXPECT_EQ(Read("mixtral").shape.window, 0);
  EXPECT_EQ(Read("mistral").rope_theta, 10000);
  EXPECT_EQ(Read("mixtral").rope_theta, 1000000);
  EXPECT_EQ(Read("qwen2").rms_epsilon, 1e-6);
  EXPECT_EQ(Read("mixtral").rms_epsilon, 1e-5);
  EXPECT_EQ(Read("qwen2").shape.base.HeadDim(), 4);
  EXPECT_EQ(Read("qwen3").shape.base.HeadDim(), 128);
  EXPECT_FALSE(Read("qwen3").shape.base.tied_head);
  EXPECT_EQ(Read("llama").max_positions, 2048);
  EXPECT_EQ(Read("mistral").max_positions, 131072);
  EXPECT_EQ(Read("qwen3").max_positions, 32768);
  EXPECT_EQ(Read("phi3").max_positions, 4096);
  EXPECT_EQ(Read("llama", R"({"max_position_embeddings": 10485760})").max_positions, 10'485'760) << "beyond any size";
}

// transformers derives missing layer_types from max_window_layers.
TEST(ParseConfig, AWindowMayBeForSomeLayers) {
  struct Row {
    const char* change;  // of four layers, with use_sliding_window
    double window;
    std::set<int64_t> whole_layers;
  };
  const Row rows[] = {
      {R"({"max_window_layers": 0})", 4096, {}},
      {R"({"max_window_layers": 0, "sliding_window": 7})", 7, {}},
      {R"({"max_window_layers": 3, "sliding_window": 7})", 7, {0, 1, 2}},
      {R"({"max_window_layers": 3, "sliding_window": 7, "layer_types": []})", 7, {0, 1, 2}},
      {R"({"max_window_layers": 28, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention",
           "sliding_attention", "full_attention"]})",
       7,
       {1, 3}},
      {R"({"max_window_layers": 0, "sliding_window": 7, "use_sliding_window": false, "layer_types": null})", 0, {}},
  };
  for (const char* type : {"qwen2", "qwen3"}) {
    for (const Row& row : rows) {
      json config = Config(type, R"({"num_hidden_layers": 4, "use_sliding_window": true})");
      config.update(json::parse(row.change));
      const DecoderConfig read = ParseConfig(config.dump()).value();
      EXPECT_EQ(read.shape.window, row.window) << row.change;
      EXPECT_EQ(read.shape.whole_layers, static_cast<double>(row.whole_layers.size())) << row.change;
      EXPECT_EQ(read.whole_layers, row.whole_layers) << row.change;
      for (int64_t layer = 0; layer < 4; ++layer) {
        EXPECT_EQ(read.WindowOf(layer), row.whole_layers.contains(layer) ? 0 : row.window) << row.change;
      }
    }
  }
}

// The defaults of transformers for a Gemma 2 configuration with sizes only; and null, which means unbounded.
TEST(ParseConfig, ReadsTheOptionsOfGemma2) {
  const DecoderConfig usual = Read("gemma2", R"({"num_hidden_layers": 5})");
  EXPECT_TRUE(usual.shape.base.tied_head);
  EXPECT_TRUE(usual.shape.output_norms);
  EXPECT_TRUE(usual.shape.fp32_norms);
  EXPECT_EQ(usual.shape.base.HeadDim(), 256);
  EXPECT_EQ(usual.shape.window, 4096);
  EXPECT_THAT(usual.whole_layers, ElementsAre(1, 3));
  EXPECT_THAT(usual.Windows(), ElementsAre(0, 4096));
  EXPECT_EQ(usual.NormOffset(), 1);
  EXPECT_EQ(usual.gate, Gate::kGeluTanh);
  EXPECT_DOUBLE_EQ(usual.embedding_scale, std::sqrt(8));
  EXPECT_DOUBLE_EQ(usual.score_scale, 1.0 / 16);
  EXPECT_EQ(usual.score_cap, 50);
  EXPECT_EQ(usual.logit_cap, 30);
  EXPECT_EQ(usual.max_positions, 8192);
  const DecoderConfig other = Read("gemma2", R"({"num_hidden_layers": 5, "tie_word_embeddings": false,
      "query_pre_attn_scalar": 144, "attn_logit_softcapping": null, "final_logit_softcapping": 7.5, "sliding_window": 6,
      "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention",
                      "sliding_attention"]})");
  EXPECT_FALSE(other.shape.base.tied_head);
  EXPECT_DOUBLE_EQ(other.score_scale, 1.0 / 12);
  EXPECT_EQ(other.score_cap, 0);
  EXPECT_EQ(other.logit_cap, 7.5);
  EXPECT_EQ(other.shape.window, 6);
  EXPECT_THAT(other.whole_layers, ElementsAre(0, 1));
  const DecoderConfig llama = Read("llama");
  EXPECT_EQ(llama.gate, Gate::kSilu);
  EXPECT_EQ(llama.NormOffset() + llama.score_scale + llama.score_cap + llama.logit_cap, 0);
  EXPECT_EQ(llama.embedding_scale, 1);
  EXPECT_FALSE(llama.shape.output_norms || llama.shape.fp32_norms);
}

TEST(ParseConfig, RopeScalingTakesPrecedence) {
  EXPECT_EQ(Read("llama", R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5e4}})").rope_theta, 5e4);
  EXPECT_EQ(Read("llama", R"({"rope_parameters": {"rope_theta": 5e4}, "rope_scaling": {}})").rope_theta, 5e4);
  EXPECT_EQ(
      Read("llama", R"({"rope_parameters": {"rope_theta": 5e4}, "rope_scaling": {"rope_theta": 7e4}})").rope_theta,
      7e4);
}

// transformers falls back to the number of positions, and prefers a value next to the object to the one in it.
TEST(ParseConfig, OriginalPositionsMayBeLeftOut) {
  json config = Config("llama", R"({"max_position_embeddings": 4096, "rope_scaling":
      {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}})");
  const auto original = [&] { return ParseConfig(config.dump()).value().stretched->original_positions; };
  EXPECT_EQ(original(), 4096);
  config["rope_scaling"]["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(original(), 1024);
  config["original_max_position_embeddings"] = 512;
  EXPECT_EQ(original(), 512);
}

// tests/oracles/test_decoder.py compares the frequencies with those of transformers. These turn by the length of a
// text.
DecoderConfig Dynamic() {
  return Read("llama", R"({"hidden_size": 32, "max_position_embeddings": 64, "rope_theta": 500.0,
      "rope_scaling": {"type": "dynamic", "factor": 3.0}})");
}
DecoderConfig Phi() {
  return Read("phi3", R"({"hidden_size": 32, "max_position_embeddings": 2048, "original_max_position_embeddings": 64,
      "partial_rotary_factor": 0.75, "rope_scaling": {"type": "su", "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
      "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0]}})");
}

// One row a length.
TEST(InverseFrequencies, GrowWithTheTextFromItsOriginalPositionsOn) {
  for (const DecoderConfig& read : {Dynamic(), Phi()}) {
    EXPECT_EQ(read.FixedLength(), 64);
    const at::Tensor lengths = at::tensor({1, 64, 65, 100}, at::kDouble);
    const at::Tensor all = InverseFrequencies(read, lengths);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(all[i].equal(InverseFrequencies(read, lengths.narrow(0, i, 1))[0]));
    }
    EXPECT_TRUE(all[0].equal(all[1]));
    EXPECT_FALSE(all[1].equal(all[2]));
  }
  EXPECT_FALSE(Read("llama").FixedLength());
}

TEST(CheckGrowth, RefusesToReadATextAgain) {
  const DecoderConfig phi = Phi();
  EXPECT_TRUE(CheckGrowth(phi, 1, 64).ok());
  EXPECT_TRUE(CheckGrowth(phi, 65, 2000).ok());
  const absl::Status refused = CheckGrowth(phi, 64, 65);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("grows from 64 to 65 tokens, past original_max_position"));
  EXPECT_TRUE(CheckGrowth(Dynamic(), 64, 65).ok()) << "rope_type dynamic";
}

// Phi-3's configuration in transformers has its own default, and others fall back to the number of positions.
TEST(ParseConfig, PhiHasAnOriginalNumberOfPositionsByDefault) {
  const DecoderConfig read = Read("phi3", R"({"max_position_embeddings": 131072, "rope_scaling":
      {"type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4], "original_max_position_embeddings": 7}})");
  EXPECT_EQ(read.stretched->original_positions, 4096);
  EXPECT_EQ(read.stretched->factor, 32);
}

TEST(ParseConfig, BiasesOfAttentionFollowTheConfiguration) {
  for (const char* type : {"llama", "qwen3"}) {
    const DecoderConfig biased = Read(type, R"({"attention_bias": true})");
    EXPECT_TRUE(biased.shape.attention_bias && biased.shape.output_bias) << type;
    EXPECT_FALSE(Read(type).shape.attention_bias || Read(type).shape.output_bias) << type;
  }
  EXPECT_TRUE(Read("qwen2").shape.attention_bias);
  EXPECT_FALSE(Read("qwen2", R"({"attention_bias": true})").shape.output_bias);
}

TEST(ParseConfig, StopIdsAreOneOrSeveral) {
  EXPECT_THAT(Read("llama", R"({"eos_token_id": 3})").stop_ids, ElementsAre(3));
  EXPECT_THAT(Read("llama", R"({"eos_token_id": [3, 5]})").stop_ids, ElementsAre(3, 5));
  EXPECT_THAT(Read("llama", R"({"eos_token_id": null})").stop_ids, ElementsAre());
}

// Other spellings of supported settings.
TEST(ParseConfig, SettingsWithoutEffectChangeNothing) {
  constexpr std::pair<const char*, const char*> kSame[] = {
      {"llama", R"({"hidden_act": "swish"})"},
      {"llama", R"({"_name_or_path": "meta-llama/Llama-2-7b-hf"})"},
      {"llama", R"({"partial_rotary_factor": 1.0})"},
      {"llama", R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1}})"},
      {"llama", R"({"original_max_position_embeddings": 4096})"},
      {"qwen2", R"({"attention_bias": true})"},
      {"qwen2", R"({"attention_bias": false})"},
      {"qwen2", R"({"use_sliding_window": true, "max_window_layers": 1})"},
      {"qwen3", R"({"use_sliding_window": true, "sliding_window": 4})"},
      {"qwen2", R"({"use_sliding_window": true, "sliding_window": null, "max_window_layers": 0})"},
      {"qwen2", R"({"use_sliding_window": true, "max_window_layers": 0, "layer_types": ["full_attention"]})"},
  };
  for (const auto& [type, change] : kSame) {
    SCOPED_TRACE(change);
    const DecoderConfig plain = Read(type);
    const DecoderConfig read = Read(type, change);
    EXPECT_EQ(read.shape.Parameters(), plain.shape.Parameters());
    EXPECT_EQ(read.shape.attention_bias, plain.shape.attention_bias);
    EXPECT_EQ(read.shape.window, 0);
    EXPECT_EQ(read.rope_theta, plain.rope_theta);
    EXPECT_FALSE(read.stretched);
    EXPECT_EQ(read.max_positions, plain.max_positions);
  }
}

struct Refused {
  const char* type;
  const char* change;  // null removes a key
  const char* error;
};

void ExpectRefused(const json& config, const Refused& row) {
  EXPECT_THAT(std::string(ParseConfig(config.dump()).status().message()), HasSubstr(row.error)) << row.change;
}

constexpr Refused kRefused[] = {
    {"gpt2", "{}", "models of the type 'gpt2'"},
    {"llama", R"({"hidden_size": null})", "hidden_size must be a whole number"},
    {"llama", R"({"num_hidden_layers": -1})", "num_hidden_layers must be"},
    {"llama", R"({"vocab_size": "10"})", "vocab_size must be"},
    {"llama", R"({"vocab_size": 1e15})", "vocab_size must be"},
    {"llama", R"({"max_position_embeddings": 1e16})",
     "max_position_embeddings must be a whole number from 1 to 9007199254740992"},
    {"llama", R"({"num_key_value_heads": 3})", "multiple of num_key_value_heads"},
    {"llama", R"({"head_dim": 3})", "head_dim must be even"},
    {"mistral", R"({"num_key_value_heads": null})", "num_key_value_heads must be a whole number"},
    {"mixtral", R"({"num_experts_per_tok": 3})", "num_experts_per_tok must not exceed num_local_experts"},
    {"mistral", R"({"attention_bias": true})", "a model with attention_bias"},
    {"llama", R"({"final_logit_softcapping": 30.0})",
     "a model with final_logit_softcapping, whose effect is not known (set it to null if the logits do not depend on "
     "it)"},
    {"llama", R"({"attn_logit_softcapping": 50})", "a model with attn_logit_softcapping, whose effect"},
    {"llama", R"({"partial_rotary_factor": 0.5})", "a model with partial_rotary_factor"},
    {"llama", R"({"sliding_window": 4})", "a model with sliding_window"},
    {"llama", R"({"": 4})", "a model with , whose effect"},
    {"llama", R"({"use_sliding_window": true})", "a model with use_sliding_window, whose effect"},
    {"llama", R"({"is_causal": false})", "a model with is_causal: false"},
    {"llama", R"({"rms_norm_eps": "1e-5"})", "rms_norm_eps must be a number above 0"},
    {"llama", R"({"hidden_act": 1})", "the activation '1'"},
    {"gemma2", R"({"hidden_activation": "gelu"})", "the activation 'gelu' (gelu_pytorch_tanh is)"},
    {"gemma2", R"({"attn_logit_softcapping": -1})", "attn_logit_softcapping must be a number above 0, or null"},
    {"gemma2", R"({"final_logit_softcapping": 0})", "final_logit_softcapping must be a number above 0, or null"},
    {"gemma2", R"({"final_logit_softcapping": "30"})", "final_logit_softcapping must be a number above 0, or null"},
    {"gemma2", R"({"query_pre_attn_scalar": 0})", "query_pre_attn_scalar must be a number above 0"},
    {"mistral", R"({"sliding_window": "4"})", "sliding_window must be a whole number"},
    {"mistral", R"({"sliding_window": -1})", "sliding_window must be a whole number"},
    {"qwen3", R"({"use_sliding_window": true, "max_window_layers": "all"})",
     "max_window_layers must be a number of layers"},
    {"llama", R"({"layer_types": 1})", "layer_types must be a list"},
    {"llama", R"({"layer_types": ["sliding_attention"]})", "layer_types other than full_attention of all layers"},
    {"qwen2", R"({"num_hidden_layers": 2, "layer_types": ["full_attention"]})",
     "layer_types must have an entry for each of the 2 layers"},
    {"qwen2", R"({"use_sliding_window": true, "max_window_layers": 0, "layer_types": ["linear_attention"]})",
     "layer_types other than sliding_attention and full_attention"},
    {"llama", R"({"rope_theta": "1e6"})", "rope_theta must be a number above 1"},
    {"llama", R"({"rope_parameters": {"rope_theta": true}})", "rope_theta must be a number above 1"},
    {"llama", R"({"rope_parameters": {"rope_type": "proportional"}})", "rope_type 'proportional'"},
    {"llama", R"({"rope_parameters": {"rope_type": "linear"}})",
     "factor of rope_type 'linear' must be a number above 0"},
    {"llama", R"({"rope_scaling": {"type": "dynamic", "factor": 0.5}})",
     "factor of rope_type 'dynamic' must be a number from 1 on"},
    {"llama", R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_slow": -1}})", "beta_slow must be numbers"},
    {"llama", R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": "1"}})",
     "attention_factor must be a number above 0"},
    {"llama", R"({"rope_scaling": {"type": "linear", "factor": 4.0, "beta_fast": 1}})",
     "a model with beta_fast of its positions"},
    {"phi3", R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [0]}})",
     "short_factor must be a list of"},
    {"phi3", R"({"partial_rotary_factor": 1.5})", "partial_rotary_factor must be a number up to 1"},
    {"llama", R"({"rope_parameters": {"rope_type": 5}})", "rope_type '5'"},
    {"llama", R"({"rope_scaling": "linear"})", "rope_scaling must be an object"},
    {"llama", R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
     "a model with partial_rotary_factor of its positions"},
    {"llama", R"({"rope_parameters": {"rope_type": "llama3"}})", "factor of rope_type 'llama3' must be"},
    {"llama", R"({"rope_parameters": {"rope_type": "llama3", "factor": 8}})", "rope_parameters needs low_freq_factor"},
    {"llama", R"({"quantization_config": "gptq"})", "quantization_config must be an object"},
};

TEST(ParseConfig, RefusesWithTheReason) {
  for (const Refused& row : kRefused) {
    json config = Config(row.type);
    config.merge_patch(json::parse(row.change));
    ExpectRefused(config, row);
  }
}

constexpr Refused kRefusedQuantizations[] = {
    {"bitsandbytes", "{}", "quantization_config of quant_method 'bitsandbytes' (gptq and awq are)"},
    {"gptq", R"({"bits": 3})", "quantization_config with bits 3 (4 are)"},
    {"gptq", R"({"bits": null})", "quantization_config's bits must be a whole number from 1 on"},
    {"gptq", R"({"group_size": 0})", "quantization_config's group_size must be -1 or a whole number"},
    {"gptq", R"({"is_marlin_format": true})", "quantization_config with is_marlin_format, whose effect is not known"},
    {"gptq", R"({"version": "gemm"})", "quantization_config with version, whose effect is not known"},
    {"gptq", R"({"checkpoint_format": "marlin"})", "checkpoint_format 'marlin' (gptq and gptq_v2 are)"},
    {"gptq", R"({"pack_dtype": "int16"})", "pack_dtype 'int16' (int32 is)"},
    {"awq", R"({"version": "gemv"})", "version 'gemv' (gemm is)"},
    {"awq", R"({"zero_point": false})", "awq with zero_point: false"},
    {"awq", R"({"bits": null, "w_bit": 8})", "quantization_config with w_bit 8 (4 are)"},
};

TEST(ParseConfig, RefusesQuantizationsWithTheReason) {
  for (const Refused& row : kRefusedQuantizations) {
    json config = Config("llama");
    config["quantization_config"] = {{"quant_method", row.type}, {"bits", 4}, {"group_size", 32}};
    config["quantization_config"].merge_patch(json::parse(row.change));
    ExpectRefused(config, row);
  }
}

}  // namespace
}  // namespace roofbench::models
