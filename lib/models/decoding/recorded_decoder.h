// SPDX-License-Identifier: Apache-2.0
// LibTorch's operations, with the appending of one token recorded and repeated: as a CUDA graph, for one.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {

class RecordedDecoder final : public DecoderModel {
 public:
  // Does what it is given once, and returns what does the same again on the same tensors.
  using Record = std::function<std::function<void()>(const std::function<void()>&)>;

  // As EagerDecoder; of mixtures as many sequences as EagerDecoder::AppendSet takes.
  RecordedDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity, Record record)
      : eager_(weights, batch, capacity), record_(std::move(record)) {}

  const at::Tensor& Append(const at::Tensor& tokens) override { return eager_.Append(tokens); }
  const at::Tensor& AppendOne(const at::Tensor& tokens) override;
  // Not recorded: what is repeated appends to all sequences at the same length.
  const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) override {
    return eager_.AppendTo(pieces, tokens);
  }
  at::Tensor AppendAll(const at::Tensor& tokens) override { return eager_.AppendAll(tokens); }
  std::optional<int64_t> AttentionBackend(int64_t /*keys*/) const override { return eager_.AttentionBackendOfSet(); }
  void MultiplyInt8By(Int8Product product) override { eager_.MultiplyInt8By(std::move(product)); }
  int64_t length() const override { return eager_.length(); }
  void Truncate(int64_t length) override { eager_.Truncate(length); }
  void Reorder(const std::vector<int64_t>& from) override { eager_.Reorder(from); }
  void FillRandom(int64_t length, uint64_t seed) override { eager_.FillRandom(length, seed); }
  // What is repeated has no parts.
  void ObserveComponents(ComponentMarker /*marker*/) override {}
  void ObserveStages(LlmInt8Marker /*marker*/) override {}

 private:
  EagerDecoder eager_;
  const Record record_;
  std::function<void()> replay_;
  at::Tensor logits_;  // that a replay leaves; a prompt's are elsewhere
};

}  // namespace roofbench::models
