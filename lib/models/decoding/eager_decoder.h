// SPDX-License-Identifier: Apache-2.0
// The decoder as LibTorch's operations run it, one after another, on the device of its weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/kv_cache.h"
#include "lib/models/decoding/rotary_table.h"

namespace roofbench::models {

// kStored: in the precision of the format. kExact: everything in fp32, on the weights that the format stands for: what
// results are checked against. kRounded: as kExact, but what passes from one operation to the next is rounded to the
// precision of the format: how far that alone takes the logits.
enum class Arithmetic { kStored, kExact, kRounded };

class EagerDecoder final : public DecoderModel {
 public:
  // The weights must outlive it.
  EagerDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity,
               Arithmetic arithmetic = Arithmetic::kStored);

  const at::Tensor& Append(const at::Tensor& tokens) override;
  const at::Tensor& AppendOne(const at::Tensor& tokens) override;
  const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) override;
  at::Tensor AppendAll(const at::Tensor& tokens) override;
  void Prepare(int64_t first, int64_t last) override;
  std::optional<int64_t> AttentionBackend(int64_t keys) const override;
  std::optional<double> OutlierColumns() const override { return tally_.Mean(); }

  // AppendOne in two steps, of which a CUDA graph can record the second: SetToken says what is appended to how many
  // tokens, and AppendSet appends it by the same operations on the same tensors whatever their number, attending over
  // the whole cache behind a mask. Of a mixture no more than kMostMasked sequences.
  void SetToken(const at::Tensor& tokens);
  void AppendSet();
  // Counts the token; the logits are those that AppendSet leaves.
  const at::Tensor& CountSet();
  std::optional<int64_t> AttentionBackendOfSet() const;
  // Whether the weights of the chosen experts are gathered on the device, without the host knowing which they are:
  // where they are no more than there are. Of more tokens, up to kMostMasked, every expert takes all, those that did
  // not choose it as zeros: it is the reading of the weights that takes the time (an A100 multiplies 200 rows
  // meanwhile).
  static constexpr int64_t kMostMasked = 128;
  static bool TakesChosenExperts(int64_t tokens, int64_t active, int64_t experts) { return tokens * active <= experts; }
  void MultiplyInt8By(Int8Product product) override { int8_product_ = std::move(product); }
  int64_t length() const override { return cache_.length(); }
  void Truncate(int64_t length) override { cache_.SetLength(length); }
  void Reorder(const std::vector<int64_t>& from) override { cache_.Reorder(from); }
  void FillRandom(int64_t length, uint64_t seed) override { cache_.FillRandom(length, seed); }
  void ObserveComponents(ComponentMarker marker) override { component_ = std::move(marker); }
  void ObserveStages(LlmInt8Marker marker) override { marker_ = std::move(marker); }

  // What takes the place of LibTorch's attention for two tokens and more: of q, k and v [batch, heads, tokens,
  // head_dim], where k and v begin with the tokens before.
  using PromptFunction = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;
  void AttendPromptsBy(PromptFunction attend) { attend_prompt_ = std::move(attend); }

  // Our kernel takes the place of LibTorch's operations for products of integers. The threads must outlive this.
  void MultiplyIntegersOn(const kernels::ParallelFor& threads) { int8_threads_ = &threads; }

  KvCache& cache() { return cache_; }
  const RotaryTable& rope() const { return rope_; }

 private:
  bool exact() const { return arithmetic_ != Arithmetic::kStored; }
  at::Tensor Passed(const at::Tensor& x) const;
  void End(workload::DecoderComponent component) const {
    if (component_) component_(component);
  }
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  // x itself of a model without this norm.
  at::Tensor Normed(const at::Tensor& x, const at::Tensor& weight) const;
  // Queries, keys and values [batch, heads, tokens, head_dim], before they are turned.
  at::Tensor Qkv(const LayerWeights& layer, const at::Tensor& x) const;
  // The same with the norms of heads, of a model that has them.
  at::Tensor WithHeadNorms(const LayerWeights& layer, const at::Tensor& heads) const;
  // Whether a token of `keys` keys attends to some of them only behind a window, which is 0 where there is none.
  static bool IsWindowed(int64_t keys, int64_t window) { return window > 0 && keys > window; }
  // To how many it does.
  static int64_t Attended(int64_t keys, int64_t window) { return IsWindowed(keys, window) ? window : keys; }
  // Whether the function of AttendPromptsBy, which knows no window, takes prompts that end at `keys` keys.
  bool AttendsByGiven(int64_t keys, int64_t window) const { return attend_prompt_ && !IsWindowed(keys, window); }
  // Of the layers with each of windows_.
  using Masks = std::map<int64_t, std::optional<at::Tensor>>;
  // Of `tokens` tokens after `before` in the cache; none where they need no mask of their own.
  Masks PromptMasks(int64_t before, int64_t tokens) const;
  std::optional<at::Tensor> PromptMask(int64_t before, int64_t tokens, int64_t window) const;
  // Which of `keys` [keys] tokens at `queries` [n, 1] attend to, both int64 positions.
  static at::Tensor Mask(const at::Tensor& queries, const at::Tensor& keys, int64_t window);
  at::Tensor Linear(const StoredMatrix& matrix, const at::Tensor& x, int64_t expert = 0) const;
  // The same by our kernels, of vectors [tokens, columns].
  at::Tensor ByIntegers(const at::Tensor& rows, const StoredMatrix& matrix, int64_t expert, LlmInt8Tally* tally) const;
  // Tokens of `sequences` sequences from `first` on, in the same places of each, with `before` tokens before them.
  struct Stretch {
    int64_t first = 0;
    int64_t sequences = 1;
    int64_t before = 0;
    int64_t tokens = 1;
    Masks masks = {};
  };
  // Of what becomes of the tokens [batch, n, d], the rows that logits are wanted of.
  static at::Tensor Last(const at::Tensor& x) { return x.select(1, x.size(1) - 1); }
  static at::Tensor Each(const at::Tensor& x) { return x; }
  // The logits of take(x). attend(qkv, layer) gives the weighted values, all three [batch, heads, tokens, head_dim];
  // qkv has the heads of queries, keys and values.
  template <typename Attention, typename Take>
  at::Tensor Forward(const at::Tensor& tokens, Attention attend, Take take) const;
  // Through the cache, which then holds the tokens [batch, n]: all sequences in one stretch, or one a stretch, of which
  // the tokens lie behind each other in a single row.
  template <typename Take>
  at::Tensor Read(const at::Tensor& tokens, const std::vector<Stretch>& stretches, Take take);
  // Of tokens of every sequence.
  Stretch Whole(const at::Tensor& tokens) const;
  at::Tensor Attend(const at::Tensor& qkv, int64_t layer, const std::vector<Stretch>& stretches);
  at::Tensor Attend(const at::Tensor& qkv, int64_t layer, const Stretch& stretch);
  at::Tensor AttendSet(const at::Tensor& qkv, int64_t layer, const at::Tensor& mask);
  at::Tensor Weighted(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const std::optional<at::Tensor>& mask, bool causal) const;
  at::Tensor Expert(const LayerWeights& layer, const at::Tensor& x, int64_t expert) const;
  at::Tensor Mlp(const LayerWeights& layer, const at::Tensor& x) const;
  // rows [tokens, d] by their experts: chosen and weight [tokens, active].
  at::Tensor ByChosen(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                      const at::Tensor& weight) const;
  at::Tensor ByMask(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                    const at::Tensor& weight) const;
  at::Tensor ByExpert(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                      const at::Tensor& weight) const;
  at::Tensor OneQuery() const;

  const DecoderWeights& weights_;
  const Arithmetic arithmetic_;
  const int64_t batch_;
  const DecoderSizes n_;
  const std::set<int64_t> windows_;  // that layers have, 0 among them where some have none
  const double embedding_scale_;
  const RotaryTable rope_;
  KvCache cache_;
  at::Tensor logits_;
  at::Tensor token_;     // [batch, 1], what SetToken set
  at::Tensor position_;  // [1], where it goes
  PromptFunction attend_prompt_;
  const kernels::ParallelFor* int8_threads_ = nullptr;
  mutable QuantisedVectors quantised_;
  mutable LlmInt8Tally tally_;  // of the last call
  Int8Product int8_product_;
  ComponentMarker component_;
  LlmInt8Marker marker_;
};

}  // namespace roofbench::models
