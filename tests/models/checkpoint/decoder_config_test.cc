// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

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
    {.name = "Llama_2_7b",
     .text = R"({"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
  "vocab_size": 32000})",
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
    {.name = "TinyLlama_1_1B_Chat",
     .text = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
  "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 22,
  "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.35.0", "use_cache": true,
  "vocab_size": 32000})",
     .parameters = 1100048384,
     .theta = 10000},
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
    {.name = "Mistral_7B_v0_3",
     .text = R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0", "use_cache": true,
  "vocab_size": 32768})",
     .parameters = 7248023552,
     .theta = 1000000},
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
    {.name = "Qwen2_7B",
     .text = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
  "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28, "model_type": "qwen2",
  "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.37.2", "use_cache": true, "use_sliding_window": false, "vocab_size": 152064})",
     .parameters = 7615616512,
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
    {.name = "Qwen3_0_6B",
     .text = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
  "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})",
     .parameters = 596049920,
     .theta = 1000000},
    {.name = "Qwen3_8B",
     .text = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 40960, "max_window_layers": 36,
  "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})",
     .parameters = 8190735360,
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
};

class PublishedConfig : public testing::TestWithParam<Published> {};

TEST_P(PublishedConfig, IsRead) {
  const absl::StatusOr<DecoderConfig> config = ParseConfig(GetParam().text);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shape.Parameters(), GetParam().parameters);
  EXPECT_EQ(config->rope_theta, GetParam().theta);
  EXPECT_EQ(config->shape.window, GetParam().window);
  EXPECT_EQ(config->stretched.has_value(), GetParam().stretched);
  EXPECT_FALSE(config->stop_ids.empty());
}

INSTANTIATE_TEST_SUITE_P(Each, PublishedConfig, testing::ValuesIn(kPublished),
                         [](const auto& instance) { return std::string(instance.param.name); });

// With nothing but its sizes.
json Bare(const char* type) {
  return {{"model_type", type},       {"vocab_size", 10},       {"hidden_size", 8},
          {"intermediate_size", 12},  {"num_hidden_layers", 1}, {"num_attention_heads", 2},
          {"num_key_value_heads", 2}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}};
}

DecoderConfig Read(json config) {
  if (config["model_type"] != "mixtral") {
    config.erase("num_local_experts");
    config.erase("num_experts_per_tok");
  }
  return ParseConfig(config.dump()).value();
}

// transformers' own, of release 5.
TEST(ParseConfig, WhatIsLeftOutIsOfItsArchitecture) {
  EXPECT_EQ(Read(Bare("llama")).shape.window, 0);
  EXPECT_EQ(Read(Bare("mistral")).shape.window, 4096);
  json config = Bare("mistral");
  config["sliding_window"] = nullptr;
  EXPECT_EQ(Read(config).shape.window, 0);
  EXPECT_EQ(Read(Bare("mixtral")).shape.window, 0);
  EXPECT_EQ(Read(Bare("mistral")).rope_theta, 10000);
  EXPECT_EQ(Read(Bare("mixtral")).rope_theta, 1000000);
  EXPECT_EQ(Read(Bare("qwen2")).rms_epsilon, 1e-6);
  EXPECT_EQ(Read(Bare("mixtral")).rms_epsilon, 1e-5);
  EXPECT_EQ(Read(Bare("qwen2")).shape.base.HeadDim(), 4);
  EXPECT_EQ(Read(Bare("qwen3")).shape.base.HeadDim(), 128);
  EXPECT_FALSE(Read(Bare("qwen3")).shape.base.tied_head);
}

// transformers derives layer_types from max_window_layers where they are missing.
TEST(ParseConfig, AWindowMayBeginWithTheFirstLayer) {
  for (const char* type : {"qwen2", "qwen3"}) {
    json config = Bare(type);
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 0;
    EXPECT_EQ(Read(config).shape.window, 4096) << "left out";
    config["sliding_window"] = 7;
    EXPECT_EQ(Read(config).shape.window, 7);
    config["layer_types"] = json::array({"sliding_attention"});
    config["max_window_layers"] = 28;
    EXPECT_EQ(Read(config).shape.window, 7) << "layer_types go first";
    config["use_sliding_window"] = false;
    config["layer_types"] = nullptr;
    EXPECT_EQ(Read(config).shape.window, 0);
  }
}

// Layers before max_window_layers are without a window, unless layer_types overrides that.
TEST(ParseConfig, AWindowMayBeForSomeLayers) {
  for (const char* type : {"qwen2", "qwen3"}) {
    json config = Bare(type);
    config["num_hidden_layers"] = 4;
    config["use_sliding_window"] = true;
    config["sliding_window"] = 7;
    config["max_window_layers"] = 3;
    const DecoderConfig late = Read(config);
    EXPECT_EQ(late.shape.window, 7);
    EXPECT_EQ(late.shape.whole_layers, 3);
    EXPECT_THAT(late.whole_layers, ElementsAre(0, 1, 2));
    EXPECT_EQ(late.WindowOf(2), 0);
    EXPECT_EQ(late.WindowOf(3), 7);
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
    EXPECT_THAT(Read(config).whole_layers, ElementsAre(1, 3));
    config["layer_types"] = json::array();
    EXPECT_THAT(Read(config).whole_layers, ElementsAre(0, 1, 2)) << "as if it were left out";
  }
}

// The defaults of transformers for a Gemma 2 configuration with sizes only; and null, which means unbounded.
TEST(ParseConfig, Gemma2HasBoundsNormsOfOutputsAndAWindowOfEveryOtherLayer) {
  json config = Bare("gemma2");
  config["num_hidden_layers"] = 5;
  const DecoderConfig usual = Read(config);
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
  config.update({{"tie_word_embeddings", false},
                 {"query_pre_attn_scalar", 144},
                 {"attn_logit_softcapping", nullptr},
                 {"final_logit_softcapping", 7.5},
                 {"sliding_window", 6},
                 {"layer_types", json::array({"full_attention", "full_attention", "sliding_attention",
                                              "sliding_attention", "sliding_attention"})}});
  const DecoderConfig other = Read(config);
  EXPECT_FALSE(other.shape.base.tied_head);
  EXPECT_DOUBLE_EQ(other.score_scale, 1.0 / 12);
  EXPECT_EQ(other.score_cap, 0);
  EXPECT_EQ(other.logit_cap, 7.5);
  EXPECT_EQ(other.shape.window, 6);
  EXPECT_THAT(other.whole_layers, ElementsAre(0, 1));
  const DecoderConfig llama = Read(Bare("llama"));
  EXPECT_EQ(llama.gate, Gate::kSilu);
  EXPECT_EQ(llama.NormOffset() + llama.score_scale + llama.score_cap + llama.logit_cap, 0);
  EXPECT_EQ(llama.embedding_scale, 1);
  EXPECT_FALSE(llama.shape.output_norms || llama.shape.fp32_norms);
}

TEST(ParseConfig, WhoseLayersHaveWhichWindowMustBeClear) {
  json config = Bare("qwen2");
  config.erase("num_local_experts");
  config.erase("num_experts_per_tok");
  config["num_hidden_layers"] = 2;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  const auto message = [&] { return std::string(ParseConfig(config.dump()).status().message()); };
  EXPECT_EQ(message(), "");
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(message(), HasSubstr("layer_types must have an entry for each of the 2 layers"));
  config["layer_types"] = {"full_attention", "linear_attention"};
  EXPECT_THAT(message(), HasSubstr("layer_types other than sliding_attention and full_attention"));
  config["layer_types"] = {"full_attention", "sliding_attention"};
  config["use_sliding_window"] = false;
  EXPECT_THAT(message(), HasSubstr("layer_types other than full_attention of all layers"));
  config["layer_types"] = nullptr;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = "one";
  EXPECT_THAT(message(), HasSubstr("max_window_layers must be a number of layers"));
}

TEST(ParseConfig, TheOlderNameOfPositionsGoesFirst) {
  json config = Bare("llama");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 50000.0}};
  EXPECT_EQ(Read(config).rope_theta, 50000);
  config["rope_scaling"] = json::object();
  EXPECT_EQ(Read(config).rope_theta, 50000);
  config["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 70000.0}};
  EXPECT_EQ(Read(config).rope_theta, 70000);
}

// Another spelling of a supported setting.
struct Spelling {
  const char* name;
  const char* type;
  json more;
};

class OtherSpelling : public testing::TestWithParam<Spelling> {};

TEST_P(OtherSpelling, MeansTheSame) {
  json config = Bare(GetParam().type);
  const DecoderConfig plain = Read(config);
  config.update(GetParam().more);
  const DecoderConfig read = Read(config);
  EXPECT_EQ(read.shape.Parameters(), plain.shape.Parameters());
  EXPECT_EQ(read.shape.attention_bias, plain.shape.attention_bias);
  EXPECT_EQ(read.shape.window, 0);
  EXPECT_EQ(read.rope_theta, plain.rope_theta);
  EXPECT_FALSE(read.stretched);
  EXPECT_EQ(read.max_positions, plain.max_positions);
}

INSTANTIATE_TEST_SUITE_P(
    Each, OtherSpelling,
    testing::Values(Spelling{"Swish", "llama", {{"hidden_act", "swish"}}},
                    Spelling{"AllPairs", "llama", {{"partial_rotary_factor", 1.0}}},
                    Spelling{"AllPairsOfPositions",
                             "llama",
                             {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 1}}}}},
                    Spelling{"OriginalPositionsOfNothing", "llama", {{"original_max_position_embeddings", 4096}}},
                    Spelling{"BiasOfQwen2", "qwen2", {{"attention_bias", true}}},
                    Spelling{"NoBiasOfQwen2", "qwen2", {{"attention_bias", false}}},
                    Spelling{"WindowOfNoLayer", "qwen2", {{"use_sliding_window", true}, {"max_window_layers", 1}}},
                    Spelling{"WindowOfNoLayerAsUsual", "qwen3", {{"use_sliding_window", true}, {"sliding_window", 4}}},
                    Spelling{"NoWindow",
                             "qwen2",
                             {{"use_sliding_window", true}, {"sliding_window", nullptr}, {"max_window_layers", 0}}},
                    Spelling{"WindowOfNoTypeOfLayer",
                             "qwen2",
                             {{"use_sliding_window", true},
                              {"max_window_layers", 0},
                              {"layer_types", json::array({"full_attention"})}}}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(ParseConfig, PositionsAreCountedBeyondAnySize) {
  json config = Bare("llama");
  EXPECT_EQ(Read(config).max_positions, 2048);
  EXPECT_EQ(Read(Bare("mistral")).max_positions, 131072);
  EXPECT_EQ(Read(Bare("qwen3")).max_positions, 32768);
  config["max_position_embeddings"] = 10'485'760;
  EXPECT_EQ(Read(config).max_positions, 10'485'760);
}

// transformers falls back to the number of positions, and prefers a value next to the object to the one in it.
TEST(ParseConfig, OriginalPositionsMayBeLeftOut) {
  json config = Bare("llama");
  config["max_position_embeddings"] = 4096;
  config["rope_scaling"] = {
      {"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  EXPECT_EQ(Read(config).stretched->original_positions, 4096);
  config["rope_scaling"]["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(Read(config).stretched->original_positions, 1024);
  config["original_max_position_embeddings"] = 512;
  EXPECT_EQ(Read(config).stretched->original_positions, 512);
}

TEST(ParseConfig, StopIdsAreOneOrSeveral) {
  json config = Bare("llama");
  config["eos_token_id"] = 3;
  EXPECT_THAT(Read(config).stop_ids, ElementsAre(3));
  config["eos_token_id"] = {3, 5};
  EXPECT_THAT(Read(config).stop_ids, ElementsAre(3, 5));
  config["eos_token_id"] = nullptr;
  EXPECT_THAT(Read(config).stop_ids, ElementsAre());
}

}  // namespace
}  // namespace roofbench::models
