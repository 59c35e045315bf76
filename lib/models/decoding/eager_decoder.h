// SPDX-License-Identifier: Apache-2.0
// The decoder by LibTorch's operations, on the device of its weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/models/block/forward_hooks.h"
#include "lib/models/block/rotary_table.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/kv_cache.h"

namespace roofbench::models {

// kStored: in the precision of the format. kExact: in fp32, on the dequantized weights: the reference for checks.
// kRounded: as kExact, but rounds the result of each operation to the precision of the format, to measure the effect of
// rounding alone.
enum class Arithmetic { kStored, kExact, kRounded };

class EagerDecoder : public DecoderModel {
 public:
  // The weights must outlive it. Given the cache of a decoder that has read the same tokens, it attends to that one,
  // and keeps its own keys and values unrounded: near the middle between two steps of 8 bits, the last bit of a value
  // decides which it takes, so that two correct decoders with caches of their own differ by whole steps.
  EagerDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity,
               Arithmetic arithmetic = Arithmetic::kStored, const KvCache* attended = nullptr);

  const at::Tensor& Append(const at::Tensor& tokens) override;
  const at::Tensor& AppendOne(const at::Tensor& tokens) override;
  const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) override;
  at::Tensor AppendAll(const at::Tensor& tokens) override;
  // As Append, with the positions of AppendOne: they differ where positions turn by the length of a text.
  const at::Tensor& AppendOneByOne(const at::Tensor& tokens);
  void Prepare(int64_t sequences, int64_t tokens) override;
  std::optional<int64_t> AttentionBackend(int64_t keys) const override;
  std::optional<double> OutlierColumns() const override { return tally_.Mean(); }

  // AppendOne in two steps, so that a CUDA graph can record the second. SetToken sets the token and its position;
  // AppendSet appends it by the same operations on the same tensors at any length, with masked attention over the whole
  // cache. Mixtures support up to kMostMasked sequences.
  void SetToken(const at::Tensor& tokens);
  void AppendSet();
  // Counts the token and returns the logits of AppendSet.
  const at::Tensor& CountSet();
  std::optional<int64_t> AttentionBackendOfSet() const;
  // Whether to gather the weights of the chosen experts on the device, without the host knowing which they are: if they
  // are at most as many as all experts. For more tokens, up to kMostMasked, every expert takes all tokens, with zeros
  // for those that did not choose it: reading the weights dominates (an A100 multiplies 200 rows meanwhile).
  static constexpr int64_t kMostMasked = 128;
  static bool TakesChosenExperts(int64_t tokens, int64_t active, int64_t experts) { return tokens * active <= experts; }
  void MultiplyInt8By(Int8Product product) override { int8_product_ = std::move(product); }
  int64_t length() const override { return cache_.length(); }
  void Truncate(int64_t length) override { cache_.SetLength(length); }
  void Reorder(const std::vector<int64_t>& from) override { cache_.Reorder(from); }
  void FillRandom(int64_t length, uint64_t seed) override { cache_.FillRandom(length, seed); }
  void ObserveComponents(ComponentMarker marker) override { component_ = std::move(marker); }
  void ObserveStages(Int8Marker marker) override { marker_ = std::move(marker); }

  // Replaces LibTorch's attention for two or more tokens: q, k and v are [batch, heads, tokens, head_dim], where k and
  // v begin with the earlier tokens.
  using PromptFunction = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;
  void AttendPromptsBy(PromptFunction attend) { attend_prompt_ = std::move(attend); }

  // The weights are a rank's part: the hooks, which must outlive this, add up the terms of all ranks.
  void SumBy(ForwardHooks& hooks) { hooks_ = &hooks == &NoHooks() ? nullptr : &hooks; }

  // Replaces LibTorch's operations by our kernels for products of integers. The threads must outlive this.
  void MultiplyIntegersOn(const kernels::ParallelFor& threads) { int8_threads_ = &threads; }

  // Replaces at::linear for weights in the type of vectors, or dequantized to it.
  void MultiplyBy(LinearFunction linear) { linear_ = std::move(linear); }

  // Replaces StoredMatrix::Apply for other weights, unless it returns an undefined tensor.
  using StoredFunction = std::function<at::Tensor(const at::Tensor& x, const StoredMatrix& matrix, int64_t expert)>;
  void MultiplyStoredBy(StoredFunction multiply) { stored_ = std::move(multiply); }

  // Replace LibTorch's norms, and its silu(gate) ∘ up of the two halves of each row, unless they return an undefined
  // tensor.
  using NormFunction = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
  using GateFunction = std::function<at::Tensor(const at::Tensor& gate_up)>;
  void NormBy(NormFunction norm) { norm_ = std::move(norm); }
  void GateBy(GateFunction gate) { gate_ = std::move(gate); }

  // Turns heads [batch, heads, tokens, head_dim] in place by the angles of the tokens, unless it returns false.
  using TurnFunction = std::function<bool(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines)>;
  void TurnBy(TurnFunction turn) { turn_ = std::move(turn); }

  const KvCache* keys_and_values() const override { return &cache_; }
  KvCache& cache() { return cache_; }
  const RotaryTable& rope() const { return rope_; }

 private:
  bool exact() const { return arithmetic_ != Arithmetic::kStored; }
  at::Tensor Passed(const at::Tensor& x) const;
  void End(workload::DecoderComponent component) const {
    if (component_) component_(component);
  }
  // x itself if the model does not have this norm.
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  // The sum of all ranks' terms; the term itself if there is one rank.
  at::Tensor SumOverRanks(const at::Tensor& term) const;
  // y itself if the model does not have this bias.
  at::Tensor AddBias(const at::Tensor& y, const at::Tensor& bias) const;
  // Queries, keys and values [batch, heads, tokens, head_dim], before rotation.
  at::Tensor Qkv(const LayerWeights& layer, const at::Tensor& x) const;
  // The same with the norms of heads, if the model has them.
  at::Tensor WithHeadNorms(const LayerWeights& layer, const at::Tensor& heads) const;
  // Whether a window (0: none) hides some of `keys` keys from the last token.
  static bool IsWindowed(int64_t keys, int64_t window) { return window > 0 && keys > window; }
  // The number of keys that it attends to.
  static int64_t Attended(int64_t keys, int64_t window) { return IsWindowed(keys, window) ? window : keys; }
  // Whether the function of AttendPromptsBy, which has no windows, attends to `keys` keys.
  bool AttendsByGiven(int64_t keys, int64_t window) const { return attend_prompt_ && !IsWindowed(keys, window); }
  // By window.
  using Masks = std::map<int64_t, std::optional<at::Tensor>>;
  // For `tokens` tokens after `before` in the cache; nullopt if a causal mask, or none, is enough.
  Masks PromptMasks(int64_t before, int64_t tokens) const;
  std::optional<at::Tensor> PromptMask(int64_t before, int64_t tokens, int64_t window) const;
  // The `keys` [keys] to which tokens at `queries` [n, 1] attend, both int64 positions.
  static at::Tensor Mask(const at::Tensor& queries, const at::Tensor& keys, int64_t window);
  at::Tensor Linear(const StoredMatrix& matrix, const at::Tensor& x, int64_t expert = 0) const;
  // The same by our kernels, for vectors [tokens, columns].
  at::Tensor ByIntegers(const at::Tensor& rows, const StoredMatrix& matrix, int64_t expert, OutlierTally* tally) const;
  // Tokens of `sequences` sequences from `first` on, each after `before` earlier tokens.
  struct Stretch {
    int64_t first = 0;
    int64_t sequences = 1;
    int64_t before = 0;
    int64_t tokens = 1;
    Masks masks = {};
    std::optional<RotaryTable> rope = {};  // instead of rope_
  };
  // The rows of hidden states [batch, n, d] whose logits are needed.
  static at::Tensor Last(const at::Tensor& x) { return x.select(1, x.size(1) - 1); }
  static at::Tensor Each(const at::Tensor& x) { return x; }
  // The logits of take(x). attend(qkv, layer) returns the weighted values [batch, heads, tokens, head_dim]; qkv
  // contains the heads of queries, keys and values.
  template <typename Attention>
  struct Operations;
  template <typename Attention, typename Take>
  at::Tensor Forward(const at::Tensor& tokens, Attention attend, Take take) const;
  // Reads tokens [batch, n] into the cache: all sequences in one stretch, or one sequence in each, with the tokens of
  // all stretches in a single row.
  template <typename Take>
  at::Tensor Read(const at::Tensor& tokens, const std::vector<Stretch>& stretches, Take take);
  // The stretch of tokens [batch, n] of all sequences.
  Stretch Whole(const at::Tensor& tokens) const;
  // The rotations of tokens that are read at once, if they are not those of rope_: as in transformers, all turn as the
  // last of them does.
  std::optional<RotaryTable> AtOnce(int64_t before, int64_t tokens) const;
  // May turn them in place.
  at::Tensor Turned(const at::Tensor& heads, const Stretch& stretch) const;
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
  // The queries of `tokens` tokens, of zeros, in the layout of Attend.
  at::Tensor Queries(int64_t sequences, int64_t tokens) const;

  const DecoderWeights& weights_;
  const Arithmetic arithmetic_;
  const int64_t batch_;
  const DecoderSizes n_;
  const std::set<int64_t> windows_;  // of all layers; 0: none
  const double embedding_scale_;
  const RotaryTable rope_;
  KvCache cache_;
  std::optional<KvCache> attended_;  // instead of cache_; shares the memory of another decoder's
  at::Tensor logits_;
  at::Tensor token_;     // [batch, 1], by SetToken
  at::Tensor position_;  // [1], of the token
  PromptFunction attend_prompt_;
  ForwardHooks* hooks_ = nullptr;  // the weights are the whole model's
  const kernels::ParallelFor* int8_threads_ = nullptr;
  LinearFunction linear_;  // nullptr: at::linear
  StoredFunction stored_;
  NormFunction norm_;
  TurnFunction turn_;
  GateFunction gate_;
  mutable QuantizedVectors quantized_;
  mutable OutlierTally tally_;  // of the last call
  Int8Product int8_product_;
  ComponentMarker component_;
  Int8Marker marker_;
};

// The same with AppendOne recorded and replayed, for example as a CUDA graph. AppendTo is not recorded: a recording
// appends to all sequences at the same length. A recording has no components and no stages.
class RecordedDecoder final : public EagerDecoder {
 public:
  // Runs the given function once, and returns a function that repeats it on the same tensors.
  using Record = std::function<std::function<void()>(const std::function<void()>&)>;

  // As EagerDecoder; mixtures support as many sequences as EagerDecoder::AppendSet.
  RecordedDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity, Record record)
      : EagerDecoder(weights, batch, capacity), record_(std::move(record)) {}

  const at::Tensor& AppendOne(const at::Tensor& tokens) override;
  std::optional<int64_t> AttentionBackend(int64_t /*keys*/) const override { return AttentionBackendOfSet(); }
  void ObserveComponents(ComponentMarker /*marker*/) override {}
  void ObserveStages(Int8Marker /*marker*/) override {}

 private:
  const Record record_;
  std::function<void()> replay_;
  at::Tensor replayed_;  // the logits of a replay
};

}  // namespace roofbench::models
