// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace roofbench::workload {

namespace {

double StorageBytes(WeightFormat format) { return ElementBytes(ActivationDtype(format)); }

// `tokens` rows times one of the model's matrices [rows, columns] in this format: its bytes are read once.
Operation Product(const StoredDecoder& stored, WeightFormat format, double tokens, double rows, double columns) {
  return Operation{.bytes_read = MatrixBytes(format, rows, columns, stored.group)}.WithFlops(
      ProductDtype(format, stored.activations), 2 * tokens * rows * columns);
}

// The mean of function(width of a window, or 0) over the layers, some of which may have no window.
template <typename Function>
double MeanOfLayers(const Decoder& shape, Function function) {
  const double whole = shape.whole_layers / shape.base.layers;
  return whole > 0 ? whole * function(0) + (1 - whole) * function(shape.window) : function(shape.window);
}

}  // namespace

double Decoder::Parameters() const {
  return base.Parameters().Total() + base.layers * ((experts - 1) * ExpertParameters() + RouterParameters() +
                                                    BiasParameters() + NormParameters() - 2 * base.d_model);
}

double Decoder::ActiveParameters() const {
  return base.Parameters().matmul + base.layers * ((active_experts - 1) * ExpertParameters() + RouterParameters());
}

double Decoder::KvBytesPerToken(WeightFormat format) const {
  return 2 * base.layers * base.KvWidth() * StorageBytes(format);
}

double Decoder::ExpectedExperts(double tokens) const {
  return experts * (1 - std::pow(1 - active_experts / experts, tokens));
}

double Decoder::TokensOfAnExpert(double tokens) const {
  return IsMixture() ? tokens * active_experts / ExpectedExperts(tokens) : tokens;
}

double Decoder::AttendedKeys(double depth, double tokens) const {
  return MeanOfLayers(*this, [&](double width) {
    const double growing = width > 0 ? std::clamp(width - depth, 0.0, tokens) : tokens;  // that see all earlier tokens
    return growing * depth + growing * (growing + 1) / 2 + (tokens - growing) * width;
  });
}

double Decoder::ReadKeys(double depth, double tokens) const {
  return MeanOfLayers(
      *this, [&](double width) { return depth + tokens - (width > 0 ? std::max(0.0, depth + 1 - width) : 0); });
}

double StoredDecoder::ModelBytes() const {
  const Transformer& s = shape.base;
  const auto linear = [&](DecoderComponent product, double rows, double columns) {
    return MatrixBytes(FormatOf(product), rows, columns, group);
  };
  const WeightFormat plain = Unquantized();
  const double norms = s.layers * shape.NormParameters() + s.d_model;
  const double vectors = s.layers * shape.BiasParameters() * StorageBytes(format) +
                         norms * (shape.fp32_norms ? ElementBytes(Dtype::kFp32) : StorageBytes(format));
  const double attention = linear(DecoderComponent::kQkv, s.QueryWidth() + 2 * s.KvWidth(), s.d_model) +
                           linear(DecoderComponent::kOut, s.d_model, s.QueryWidth());
  const double expert =
      linear(DecoderComponent::kGateUp, 2 * s.d_ff, s.d_model) + linear(DecoderComponent::kDown, s.d_model, s.d_ff);
  const double router = MatrixBytes(plain, shape.RouterParameters() / s.d_model, s.d_model, group);
  const WeightFormat head = FormatOf(DecoderComponent::kHead);
  const bool own_head = !s.tied_head || head != plain;
  return MatrixBytes(plain, s.vocab, s.d_model, group) + (own_head ? MatrixBytes(head, s.vocab, s.d_model, group) : 0) +
         s.layers * (attention + shape.experts * expert + router) + vectors;
}

double StoredDecoder::KvBytesOfLayer() const {
  if (!int8_cache) return shape.KvBytesPerToken(format) / shape.base.layers;
  return 2 * (shape.base.KvWidth() * ElementBytes(Dtype::kInt8) + shape.base.KvHeads() * ElementBytes(Dtype::kFp32));
}

namespace {

// `tokens` tokens in all pass through every layer; they multiply `scores` pairs of a query and a key per head, and read
// `cached` keys in all. `logits` rows pass through the head.
workload::Cost Forward(const StoredDecoder& stored, double tokens, double scores, double cached, double logits) {
  const Transformer& s = stored.shape.base;
  const WeightFormat format = stored.format;
  const double element = StorageBytes(format);
  const auto product = [&](DecoderComponent component, double rows, double columns, double taken) {
    const bool is_router = component == DecoderComponent::kRouter;
    const WeightFormat in = is_router ? stored.Unquantized() : stored.FormatOf(component);
    Operation operation = Product(stored, in, taken, rows, columns);
    operation.repeat = s.layers;
    operation.component = Name(component);
    return operation;
  };
  Operation attention{.bytes_read = cached * stored.KvBytesOfLayer(),
                      .bytes_written = tokens * stored.KvBytesOfLayer(),
                      .repeat = s.layers,
                      .component = Name(DecoderComponent::kAttention)};
  // Queries against keys, and weights against values.
  attention.flops[Index(ActivationDtype(format, stored.activations))] = 4 * scores * s.QueryWidth();
  workload::Cost cost;
  Operation qkv = product(DecoderComponent::kQkv, s.QueryWidth() + 2 * s.KvWidth(), s.d_model, tokens);
  qkv.bytes_read += stored.shape.QkvBiasParameters() * element;
  Operation out = product(DecoderComponent::kOut, s.d_model, s.QueryWidth(), tokens);
  out.bytes_read += (stored.shape.BiasParameters() - stored.shape.QkvBiasParameters()) * element;
  cost.operations = {qkv, attention, out};
  // Each chosen expert is read once, however many tokens share it.
  const double experts = stored.shape.IsMixture() ? stored.shape.ExpectedExperts(tokens) : 1;
  const double shared = stored.shape.TokensOfAnExpert(tokens);
  for (Operation expert : {product(DecoderComponent::kGateUp, 2 * s.d_ff, s.d_model, shared),
                           product(DecoderComponent::kDown, s.d_model, s.d_ff, shared)}) {
    expert.repeat *= experts;
    cost.operations.push_back(expert);
  }
  if (stored.shape.IsMixture()) {
    cost.operations.push_back(product(DecoderComponent::kRouter, stored.shape.experts, s.d_model, tokens));
  }
  // Rows of the embedding.
  cost.operations.push_back({.bytes_read = tokens * s.d_model * element, .component = Name(DecoderComponent::kNorm)});
  Operation head = product(DecoderComponent::kHead, s.vocab, s.d_model, logits);
  head.repeat = 1;
  head.bytes_written = logits * s.vocab * ElementBytes(Dtype::kFp32);
  cost.operations.push_back(head);
  return cost;
}

}  // namespace

workload::Cost StoredDecoder::PrefillCost(double batch, double prompt, double capacity) const {
  workload::Cost cost = Forward(*this, batch * prompt, batch * shape.AttendedKeys(0, prompt), batch * prompt, batch);
  cost.resident_bytes = ResidentBytes(batch, prompt, capacity);
  return cost;
}

workload::Cost StoredDecoder::TokensCost(double batch, double depth, double tokens, double capacity) const {
  // Attention is linear in the keys, so the mean token represents all.
  const double keys = batch * shape.AttendedKeys(depth, tokens) / tokens;
  workload::Cost cost = Repeated(Forward(*this, batch, keys, keys, batch), tokens);
  cost.resident_bytes = ResidentBytes(batch, 1, capacity);
  return cost;
}

namespace {

workload::Cost AllOf(std::string_view component, workload::Cost cost) {
  for (Operation& operation : cost.operations) operation.component = component;
  return cost;
}

// The steps after the first token of each: between two ends of sequences, the number of participants is constant.
workload::Cost StepsCost(const StoredDecoder& stored, const std::vector<SequenceTokens>& sequences) {
  std::set<double> ends;
  for (const SequenceTokens& one : sequences) ends.insert(one.new_tokens - 1);
  workload::Cost cost;
  double before = 0;
  for (const double end : ends) {
    const double steps = end - before;
    double active = 0;
    double keys = 0;
    for (const SequenceTokens& one : sequences) {
      if (one.new_tokens - 1 < end) continue;
      active += 1;
      keys += stored.shape.AttendedKeys(one.prompt + before, steps);
    }
    if (steps > 0) cost += Repeated(Forward(stored, active, keys / steps, keys / steps, active), steps);
    before = end;
  }
  return cost;
}

// Passes with equally many tokens count as one pass that is repeated: attention is linear in the keys.
workload::Cost PassesCost(const StoredDecoder& stored, const std::vector<DecoderPass>& passes) {
  struct Sum {
    double passes = 0;
    double scores = 0;
    double keys = 0;
  };
  std::map<double, Sum> sums;
  for (const auto& [depth, tokens] : passes) {
    Sum& sum = sums[tokens];
    sum.passes += 1;
    sum.scores += stored.shape.AttendedKeys(depth, tokens);
    sum.keys += stored.shape.ReadKeys(depth, tokens);
  }
  workload::Cost cost;
  for (const auto& [tokens, sum] : sums) {
    cost += Repeated(Forward(stored, tokens, sum.scores / sum.passes, sum.keys / sum.passes, tokens), sum.passes);
  }
  return cost;
}

}  // namespace

workload::Cost StoredDecoder::GenerateCost(double batch, double prompt, double new_tokens) const {
  return GenerateCost(std::vector(static_cast<std::size_t>(batch), SequenceTokens{prompt, new_tokens}));
}

workload::Cost StoredDecoder::GenerateCost(const std::vector<SequenceTokens>& sequences) const {
  SequenceTokens longest;
  double tokens = 0;
  double scores = 0;
  for (const SequenceTokens& one : sequences) {
    longest = {std::max(longest.prompt, one.prompt), std::max(longest.new_tokens, one.new_tokens)};
    tokens += one.prompt;
    scores += shape.AttendedKeys(0, one.prompt);
  }
  const auto batch = static_cast<double>(sequences.size());
  workload::Cost cost = AllOf("prefill", Forward(*this, tokens, scores, tokens, batch));
  cost += AllOf("decode", StepsCost(*this, sequences));
  cost.resident_bytes = ResidentBytes(batch, longest.prompt, longest.prompt + longest.new_tokens);
  return cost;
}

workload::Cost StoredDecoder::GenerateCost(double prompt, double capacity,
                                           const std::vector<DecoderPass>& passes) const {
  workload::Cost cost = AllOf("prefill", PrefillCost(1, prompt, capacity));
  cost += AllOf("decode", PassesCost(*this, passes));
  return cost;
}

double StoredDecoder::DecodeReadBytes(double batch, double prompt, double new_tokens) const {
  return DecodeReadBytes(std::vector(static_cast<std::size_t>(batch), SequenceTokens{prompt, new_tokens}));
}

double StoredDecoder::DecodeReadBytes(const std::vector<SequenceTokens>& sequences) const {
  return StepsCost(*this, sequences).BytesRead();
}

double StoredDecoder::DecodeReadBytes(const std::vector<DecoderPass>& passes) const {
  return PassesCost(*this, passes).BytesRead();
}

bool StoredDecoder::RoundsVectors(WeightFormat in) const {
  const bool is_quantized = in == WeightFormat::kInt8 || in == WeightFormat::kInt4;
  return in == WeightFormat::kLlmInt8 || (activations == Activations::kInt8 && is_quantized);
}

namespace {

// Whether our kernels multiply several of its vectors by tiles, in bf16.
bool TakesTiles(const StoredDecoder& stored) {
  return stored.own_kernels && stored.tiles && ActivationDtype(stored.format, stored.activations) == Dtype::kBf16;
}

}  // namespace

double StoredDecoder::ProductBytes(DecoderComponent product, double rows, double columns) const {
  const WeightFormat in = FormatOf(product);
  const double element = StorageBytes(format);
  const double fp32 = ElementBytes(Dtype::kFp32);
  const bool is_composed = !own_kernels && RoundsVectors(in);
  if (is_composed && in != WeightFormat::kInt4) {
    // Vectors, magnitudes, in LLM.int8() vectors without outliers, and codes; the integers, the same in fp32, a factor
    // for each in two steps, and their product.
    return columns * ((in == WeightFormat::kLlmInt8 ? 3 : 2) * fp32 + 1) + rows * 5 * fp32;
  }
  // Our product converts what is stored in a cache.
  if (TakesTiles(*this) && !RoundsVectors(in) && (in == WeightFormat::kInt8 || in == WeightFormat::kInt4)) {
    return rows * element;
  }
  const bool is_integer = in == WeightFormat::kInt8 || in == WeightFormat::kFp8 || in == WeightFormat::kInt4;
  const double block = is_integer ? std::min(rows, static_cast<double>(kDequantizedElements) / columns) : rows;
  // A product in another type than that of its factors, and the sum in fp32.
  const bool is_scaled = in == WeightFormat::kInt4 ? is_composed : !RoundsVectors(in);
  const bool is_fp16 = ActivationDtype(format, activations) == Dtype::kFp16;
  const double scaled = is_integer && is_scaled && !is_fp16 ? 2 * fp32 : 0;
  const double vectors = is_composed ? columns * (fp32 + element) : 0;
  return vectors + rows * element + std::max(block * scaled, block < rows ? rows * element : 0);
}

// Bytes that a token takes in the operation of a layer that takes most.
double StoredDecoder::LayerBytes(double tokens) const {
  const Transformer& s = shape.base;
  const double element = StorageBytes(format);
  const double fp32 = ElementBytes(Dtype::kFp32);
  const double d = s.d_model * element;  // the residual and its norm, each
  const double q = s.QueryWidth() * element;
  const double hidden = s.d_ff * element;
  const double qkv = s.QueryWidth() + 2 * s.KvWidth();
  // LibTorch computes norms of 16-bit vectors in fp32, ours in registers.
  const double norm = element < fp32 && !own_kernels ? d + 3 * s.d_model * fp32 : 0;
  const double attention = std::max({norm, 2 * d + ProductBytes(DecoderComponent::kQkv, qkv, s.d_model),
                                     // The result, and turned queries, which ours turns in place.
                                     d + qkv * element + (own_kernels ? 1 : 2) * q,
                                     d + q + ProductBytes(DecoderComponent::kOut, s.d_model, s.QueryWidth())});
  // The gate's halves and their product.
  const double expert = std::max({ProductBytes(DecoderComponent::kGateUp, 2 * s.d_ff, s.d_model), 3 * hidden,
                                  hidden + ProductBytes(DecoderComponent::kDown, s.d_model, s.d_ff)});
  if (!shape.IsMixture()) return std::max(attention, 2 * d + expert);
  // An expert's vectors are copied, and its results are weighted, then added to those of others.
  return std::max(attention, 3 * d + shape.TokensOfAnExpert(tokens) / tokens * (d + expert));
}

double StoredDecoder::PackedVectorBytes(double tokens) const {
  if (!TakesTiles(*this) || RoundsVectors(format) || tokens <= 1) return 0;
  const Transformer& s = shape.base;
  if (format == WeightFormat::kInt8 || (format == WeightFormat::kInt4 && !packs_int4)) {
    // So many vectors at a time, each in two bytes an element, and for int8 once more as columns.
    constexpr double kAtOnce = 64;
    const double bytes = format == WeightFormat::kInt8 ? 4 : 2;
    return bytes * std::min(tokens, kAtOnce) * std::max({s.d_model, s.QueryWidth(), s.d_ff});
  }
  return ElementBytes(Dtype::kBf16) *
         std::max({tokens * s.d_model, tokens * s.QueryWidth(), shape.TokensOfAnExpert(tokens) * s.d_ff});
}

double StoredDecoder::ResidentBytes(double batch, double tokens, double capacity) const {
  const Transformer& s = shape.base;
  const double element = StorageBytes(format);
  const double vectors = batch * tokens * LayerBytes(batch * tokens);
  const double angles = capacity * s.QueryWidth() / s.heads * ElementBytes(Dtype::kFp32);
  const double logits = batch * s.vocab * ElementBytes(Dtype::kFp32);
  // The mask of the keys in the window, in LibTorch's attention: two matrices of booleans become one of elements.
  const double mask = shape.window > 0 && tokens > shape.window ? tokens * tokens * (2 + element) : 0;
  // The input vectors of the widest product once more, in 8 bits.
  const double codes =
      RoundsVectors(format) && own_kernels ? batch * tokens * std::max({s.d_model, s.QueryWidth(), s.d_ff}) : 0;
  // Keys and values of a layer in the form that LibTorch's attention, and ours of prompts, takes: with 16-bit elements,
  // the values are in fp32 while the keys are live.
  const double made_again = int8_cache ? 2 * batch * capacity * s.KvWidth() * ElementBytes(Dtype::kFp32) : 0;
  // Our attention of prompts packs those of a layer.
  const double packed = own_kernels && tokens > 1 ? 2 * batch * tokens * s.KvWidth() * element : 0;
  return ModelBytes() + angles + batch * capacity * KvBytesPerToken() + made_again + packed +
         PackedVectorBytes(batch * tokens) + vectors + codes + mask + logits;
}

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

// Cuts the layers and the vocabulary by the same share, which keeps their ratio.
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
    {"tinyllama_1b", "TinyLlama-1.1B", Dense(kTinyLlama), 10000, 1, false},
    {"llama3_1b", "Llama-3.2-1B", Dense(kLlama32Of1b), 500000, 32, true},
    {"llama2_7b", "Llama-2-7B", Dense(kLlama2Of7b), 10000, 1, false},
    {"llama3_8b", "Llama-3.1-8B", Dense(kLlama31Of8b), 500000, 8, true},
    {"mixtral_8x7b", "Mixtral-8x7B", MixtureOf8(kMixtral), 1000000, 1, false},
    {"mixtral_8x7b_16layers", "gpt-fast's published cut of it", MixtureOf8(WithLayers(kMixtral, 16)), 1000000, 1,
     false},
    {"llama3_1b_4th", "a quarter of Llama-3.2-1B: 4 layers", Dense(Cut(kLlama32Of1b, 0.25)), 500000, 32, true, false},
    {"llama2_7b_8th", "an eighth of Llama-2-7B: 4 layers", Dense(Cut(kLlama2Of7b, 0.125)), 10000, 1, false, false},
    {"mixtral_8x7b_32nd", "a 32nd of Mixtral-8x7B: 1 layer", MixtureOf8(Cut(kMixtral, 1.0 / 32)), 1000000, 1, false,
     false},
    {"tiny_llama", "for tests", Dense(kTiny), 10000, 1, false, false},
    {"tiny_mixtral", "for tests", MixtureOf8(kTiny), 10000, 1, false, false},
};

}  // namespace

std::span<const DecoderPreset> DecoderPresets() { return kPresets; }

const DecoderPreset* FindDecoderPreset(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPresets), std::end(kPresets), [&](const auto& preset) { return preset.name == name; });
  return found == std::end(kPresets) ? nullptr : found;
}

}  // namespace roofbench::workload
