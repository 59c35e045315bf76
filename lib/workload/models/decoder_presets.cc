// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/decoder_presets.h"

#include <algorithm>

namespace roofbench::workload {
namespace {

constexpr Transformer kTinyLlama = {
    .d_model = 2048, .d_ff = 5632, .layers = 22, .heads = 32, .vocab = 32000, .kv_heads = 4};
constexpr Transformer kLlama32Of1b = {
    .d_model = 2048, .d_ff = 8192, .layers = 16, .heads = 32, .vocab = 128256, .kv_heads = 8, .tied_head = true};
constexpr Transformer kLlama2Of7b = {.d_model = 4096, .d_ff = 11008, .layers = 32, .heads = 32, .vocab = 32000};
constexpr Transformer kLlama31Of8b = {
    .d_model = 4096, .d_ff = 14336, .layers = 32, .heads = 32, .vocab = 128256, .kv_heads = 8};
constexpr Transformer kMixtral = {
    .d_model = 4096, .d_ff = 14336, .layers = 32, .heads = 32, .vocab = 32000, .kv_heads = 8};
constexpr Transformer kTiny = {.d_model = 128, .d_ff = 192, .layers = 2, .heads = 4, .vocab = 96, .kv_heads = 2};

constexpr Decoder Dense(Transformer base) { return {.base = base}; }

constexpr Decoder MixtureOf8(Transformer base) { return {.base = base, .experts = 8, .active_experts = 2}; }

// A share of the layers, and of the vocabulary as well: the ratios stay.
constexpr Transformer Cut(Transformer base, double share) {
  base.layers *= share;
  base.vocab *= share;
  return base;
}

constexpr Transformer WithLayers(Transformer base, double layers) {
  base.layers = layers;
  return base;
}

constexpr DecoderPreset kPresets[] = {
    {"tinyllama_1b", Dense(kTinyLlama), 10000, false, 1, "TinyLlama-1.1B"},
    {"llama3_1b", Dense(kLlama32Of1b), 500000, true, 32, "Llama-3.2-1B"},
    {"llama2_7b", Dense(kLlama2Of7b), 10000, false, 1, "Llama-2-7B"},
    {"llama3_8b", Dense(kLlama31Of8b), 500000, true, 8, "Llama-3.1-8B"},
    {"mixtral_8x7b", MixtureOf8(kMixtral), 1000000, false, 1, "Mixtral-8x7B"},
    {"mixtral_8x7b_16layers", MixtureOf8(WithLayers(kMixtral, 16)), 1000000, false, 1,
     "gpt-fast's published cut of it"},
    {"llama3_1b_4th", Dense(Cut(kLlama32Of1b, 0.25)), 500000, true, 32, "a quarter of Llama-3.2-1B: 4 layers"},
    {"llama2_7b_8th", Dense(Cut(kLlama2Of7b, 0.125)), 10000, false, 1, "an eighth of Llama-2-7B: 4 layers"},
    {"mixtral_8x7b_32nd", MixtureOf8(Cut(kMixtral, 1.0 / 32)), 1000000, false, 1, "a 32nd of Mixtral-8x7B: 1 layer"},
    {"tiny_llama", Dense(kTiny), 10000, false, 1, "for tests"},
    {"tiny_mixtral", MixtureOf8(kTiny), 10000, false, 1, "for tests"},
};

}  // namespace

std::span<const DecoderPreset> DecoderPresets() { return kPresets; }

const DecoderPreset* FindDecoderPreset(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPresets), std::end(kPresets), [&](const auto& preset) { return preset.name == name; });
  return found == std::end(kPresets) ? nullptr : found;
}

}  // namespace roofbench::workload
