// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/compiled_decoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace roofbench::models {
namespace {

using workload::Activations;
using workload::WeightFormat;

// Why the operation does not compute the model or its formats; nullptr: it does.
const char* Missing(const DecoderConfig& config, const Storage& storage) {
  const workload::Decoder& shape = config.shape;
  if (shape.IsMixture()) return "experts";
  if (shape.attention_bias) return "biases of attention";
  if (shape.head_norms || shape.output_norms) return "norms of heads or of outputs";
  if (shape.window > 0) return "attention windows";
  if (config.RotaryDim() != DecoderSizes(shape).dim) return "heads that turn in part";
  if (config.FixedLength()) return "positions that turn by the length of a text";
  if (config.gate != Gate::kSilu) return "other gates than SiLU";
  if (config.score_scale != 0 || config.score_cap > 0 || config.logit_cap > 0) return "scaled or capped scores";
  if (config.embedding_scale != 1) return "a scaled embedding";
  if (storage.format == WeightFormat::kInt4 || storage.format == WeightFormat::kLlmInt8 ||
      storage.format == WeightFormat::kFp8) {
    return "int4, fp8 or LLM.int8() weights";
  }
  if (storage.activations == Activations::kInt8 || storage.int8_cache) return "activations or a cache in 8 bits";
  return nullptr;
}

}  // namespace

absl::Status CompiledDecoder::Check(const DecoderConfig& config, const Storage& storage) {
  const char* const missing = Missing(config, storage);
  if (missing == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the decoder that Inductor compiles is Llama's, with weights in fp32, bf16, fp16 or int8: it has no ", missing,
      "; impl:eager does"));
}

CompiledDecoder::CompiledDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity)
    : EagerDecoder(weights, batch, capacity) {
  const auto add = [this](const StoredMatrix& matrix) {
    operands_.push_back(matrix.weight[0]);
    if (matrix.scale.defined()) operands_.push_back(matrix.scale[0]);
  };
  const at::TensorOptions device(weights.embedding.device());
  operands_ = {{},
               {},
               at::full({1}, weights.config.rms_epsilon, device.dtype(at::kFloat)),
               rope().cosines(),
               rope().sines(),
               weights.embedding,
               weights.final_norm};
  add(weights.head);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const auto index = static_cast<int64_t>(i);
    operands_.insert(operands_.end(), {cache().keys[index], cache().values[index], layer.attention_norm});
    add(layer.qkv);
    add(layer.out);
    operands_.push_back(layer.mlp_norm);
    add(layer.gate_up);
    add(layer.down);
  }
}

absl::Status CompiledDecoder::CompileFor(int64_t tokens, const Compile& compile) {
  const at::TensorOptions whole = operands_.back().options().dtype(at::kLong);
  operands_[0] = at::zeros({cache().keys.size(1), tokens}, whole);
  operands_[1] = at::zeros({tokens}, whole);
  absl::StatusOr<Step> step = compile(operands_);
  if (!step.ok()) return step.status();
  steps_[tokens] = *std::move(step);
  return absl::OkStatus();
}

const at::Tensor& CompiledDecoder::Append(const at::Tensor& tokens) {
  const auto step = steps_.find(tokens.size(1));
  if (step == steps_.end()) return EagerDecoder::Append(tokens);
  const int64_t before = cache().length();
  cache().CheckRoom(before, tokens.size(1));
  operands_[0] = tokens.to(operands_[0].device());
  operands_[1] = at::arange(before, before + tokens.size(1), operands_[1].options());
  logits_ = step->second(operands_);
  cache().SetLength(before + tokens.size(1));
  return logits_;
}

}  // namespace roofbench::models
