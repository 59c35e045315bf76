// SPDX-License-Identifier: Apache-2.0
// The decoder as LibTorch's Inductor compiles it: a step over static caches for each number of tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {

class CompiledDecoder final : public EagerDecoder {
 public:
  // Appends tokens, by the operands of the operation `decoder` of tools/compile_package.py, and returns their logits.
  using Step = std::function<at::Tensor(const std::vector<at::Tensor>& operands)>;
  // Compiles that operation for operands like these.
  using Compile = std::function<absl::StatusOr<Step>(const std::vector<at::Tensor>& operands)>;

  // Unimplemented, with the reason, for a model or formats that the operation does not compute.
  static absl::Status Check(const DecoderConfig& config, const Storage& storage);

  // As EagerDecoder, for a model that Check allows.
  CompiledDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity);

  // From now on, Append and AppendOne append `tokens` tokens to each sequence by a compiled step; other numbers of
  // tokens, and those of AppendTo and AppendAll, remain EagerDecoder's.
  absl::Status CompileFor(int64_t tokens, const Compile& compile);

  const at::Tensor& Append(const at::Tensor& tokens) override;
  void Prepare(int64_t /*sequences*/, int64_t /*tokens*/) override {}
  std::optional<int64_t> AttentionBackend(int64_t /*keys*/) const override { return std::nullopt; }
  void ObserveComponents(ComponentMarker /*marker*/) override {}

 private:
  std::vector<at::Tensor> operands_;  // the first two are the tokens [batch, n] and their positions [n]
  std::map<int64_t, Step> steps_;     // by their number of tokens
  at::Tensor logits_;
};

}  // namespace roofbench::models
