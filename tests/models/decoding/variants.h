// SPDX-License-Identifier: Apache-2.0
// The decoders of tests: implementations, models, formats, and configurations with every option.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// A window of 6 keys in the first layer; biases, and norms of heads and of outputs; another gate, scale and cap;
// heads that turn in part; a vocabulary that does not fill int4's last tile.
inline void AddEverything(DecoderConfig& config) {
  config.shape.window = 6;
  config.shape.whole_layers = 1;
  config.whole_layers = {1};
  config.shape.attention_bias = config.shape.output_bias = config.shape.head_norms = true;
  config.shape.output_norms = config.shape.fp32_norms = true;
  config.gate = Gate::kGeluTanh;
  config.embedding_scale = 3;
  config.score_scale = 0.25;
  config.score_cap = 4;
  config.logit_cap = 2;
  config.shape.base.vocab = 101;
  config.rotary_dim = 24;
}

struct Variant {
  const char* implementation;
  const char* model;
  workload::WeightFormat format;
  bool has_all = false;  // AddEverything
  bool int8_activations = false;
  bool int8_cache = false;
};

inline std::string NameOf(const Variant& variant) {
  return std::string(variant.implementation) + "_" + variant.model + "_" + std::string(Name(variant.format)) +
         (variant.has_all ? "_all" : "") + (variant.int8_activations ? "_by_int8" : "") +
         (variant.int8_cache ? "_int8_cache" : "");
}

// Both implementations: tiny_llama in these formats, with and without everything, and tiny_mixtral.
inline std::vector<Variant> Variants(std::initializer_list<workload::WeightFormat> formats) {
  std::vector<Variant> variants;
  for (const char* implementation : {"eager", "native"}) {
    for (const workload::WeightFormat format : formats) {
      variants.push_back({implementation, "tiny_llama", format});
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/true});
    }
    variants.push_back({implementation, "tiny_mixtral", workload::WeightFormat::kFp32});
  }
  return variants;
}

inline DecoderWeights WeightsOf(const Variant& variant) {
  Storage storage = Storage::Default(variant.format);
  storage.group = 32;
  storage.int8_cache = variant.int8_cache;
  if (variant.int8_activations) storage.activations = workload::Activations::kInt8;
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(variant.model));
  if (variant.has_all) AddEverything(config);
  return RandomWeights(config, storage, 1).value();
}

// The same with attention far from a mean over all tokens, so that the positions of tokens matter.
inline DecoderWeights PositionalWeightsOf(const Variant& variant) {
  DecoderWeights weights = WeightsOf(variant);
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (LayerWeights& layer : weights.layers) {
    if (layer.qkv_bias.defined()) layer.qkv_bias.normal_(0, 1, generator);
    layer.query_norm.defined() ? layer.query_norm.mul_(4) : layer.attention_norm.mul_(2);
  }
  return weights;
}

// The root mean square of the difference relative to that of b.
inline double Off(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).square().mean().sqrt() / b.square().mean().sqrt()).item<double>();
}

}  // namespace roofbench::models
