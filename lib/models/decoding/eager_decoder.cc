// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/eager_decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "lib/aten/attention.h"
#include "lib/aten/elements.h"
#include "lib/models/block/operations.h"
#include "lib/models/decoding/blocks.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {

using workload::DecoderComponent;

namespace {

// The rotations at positions from `first` until `end`, in texts of `lengths` tokens: one for each position, or for all.
RotaryTable Rotations(const DecoderWeights& weights, int64_t first, int64_t end, const at::Tensor& lengths) {
  const DecoderConfig& config = weights.config;
  const at::Tensor positions = at::arange(first, end, at::kDouble).unsqueeze(1);
  const double scale = config.stretched ? config.stretched->attention_factor : 1;
  return RotaryTable::OfAngles(positions * InverseFrequencies(config, lengths), weights.embedding.device(), scale);
}

}  // namespace

EagerDecoder::EagerDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity, Arithmetic arithmetic,
                           const KvCache* attended)
    : weights_(weights),
      arithmetic_(arithmetic),
      batch_(batch),
      n_(weights.config.shape),
      windows_(weights.config.Windows()),
      embedding_scale_(weights.EmbeddingScale()),
      rope_(Rotations(weights, 0, capacity, at::arange(1, capacity + 1, at::kDouble))),
      cache_(weights.config.shape.base, batch, capacity,
             weights.embedding.options().dtype(
                 arithmetic == Arithmetic::kStored ? PlainType(weights.storage.Unquantized()) : at::kFloat),
             weights.storage.int8_cache && attended == nullptr) {
  if (attended == nullptr) return;
  attended_ = *attended;
  attended_->options = cache_.options;
}

// The result of an operation as the next one reads it.
at::Tensor EagerDecoder::Passed(const at::Tensor& x) const {
  return arithmetic_ == Arithmetic::kRounded ? x.to(PlainType(weights_.storage.Unquantized())).to(at::kFloat) : x;
}

// RunBlocks' operations.
template <typename Attention>
struct EagerDecoder::Operations {
  const EagerDecoder& decoder;
  const Attention& attend;
  at::Tensor& x;  // the residual stream
  at::Tensor& y;

  observe::Range Block(std::size_t i) const { return observe::Range("block", static_cast<int64_t>(i)); }
  observe::Range Part(const char* name) const { return observe::Range(name); }
  void End(DecoderComponent component) const { decoder.End(component); }
  void Wait() const {}
  void Norm(const at::Tensor& weight) const { y = decoder.Norm(x, weight); }
  void Qkv(const LayerWeights& layer) const { y = decoder.Qkv(layer, y); }
  void Attend(const LayerWeights& layer, int64_t index) const {
    y = attend(decoder.WithHeadNorms(layer, y), index);
    y = MergeHeads(decoder.Passed(y));
  }
  void Out(const LayerWeights& layer) const { y = decoder.Linear(layer.out, y); }
  void FeedForward(const LayerWeights& layer) const { y = decoder.Mlp(layer, y); }
  void Add(const at::Tensor& norm, const at::Tensor& bias) const {
    y = decoder.Norm(decoder.AddBias(decoder.SumOverRanks(y), bias), norm);
    x = decoder.Passed(x + y);
    y.reset();  // before the wider vectors of the feed forward are made
  }
};

template <typename Attention, typename Take>
at::Tensor EagerDecoder::Forward(const at::Tensor& tokens, Attention attend, Take take) const {
  std::optional<observe::Range> range("embedding");
  at::Tensor x = at::embedding(weights_.embedding, tokens);
  if (exact()) x = x.to(at::kFloat);
  if (embedding_scale_ != 1) x = Passed(x.mul(embedding_scale_));
  range.reset();
  at::Tensor vectors;
  RunBlocks(weights_.layers, Operations<Attention>{*this, attend, x, vectors});
  range.emplace("head");
  const at::Tensor wanted = Norm(take(x), weights_.final_norm);
  End(DecoderComponent::kNorm);
  at::Tensor logits = Linear(weights_.head, wanted).to(at::kFloat);
  if (const double cap = weights_.config.logit_cap; cap > 0) logits = logits.div(cap).tanh_().mul_(cap);
  End(DecoderComponent::kHead);
  return logits;
}

template <typename Take>
at::Tensor EagerDecoder::Read(const at::Tensor& tokens, const std::vector<Stretch>& stretches, Take take) {
  tally_ = {};
  at::Tensor logits = Forward(
      tokens.to(weights_.embedding.device()),
      [&](const at::Tensor& qkv, int64_t layer) { return Attend(qkv, layer, stretches); }, take);
  for (const Stretch& one : stretches) {
    for (int64_t i = 0; i < one.sequences; ++i) {
      cache_.lengths[static_cast<std::size_t>(one.first + i)] = one.before + one.tokens;
    }
  }
  return logits;
}

EagerDecoder::Stretch EagerDecoder::Whole(const at::Tensor& tokens) const {
  TORCH_CHECK(tokens.dim() == 2 && tokens.size(0) == batch_, "tokens must be [batch, n]");
  cache_.CheckRoom(cache_.length(), tokens.size(1));
  return {.sequences = batch_,
          .before = cache_.length(),
          .tokens = tokens.size(1),
          .masks = PromptMasks(cache_.length(), tokens.size(1))};
}

std::optional<RotaryTable> EagerDecoder::AtOnce(int64_t before, int64_t tokens) const {
  const int64_t end = before + tokens;
  const std::optional<int64_t> fixed = weights_.config.FixedLength();
  if (tokens == 1 || !fixed || end <= *fixed) return std::nullopt;
  return Rotations(weights_, before, end, at::full({1}, end, at::kDouble));
}

const at::Tensor& EagerDecoder::Append(const at::Tensor& tokens) {
  Stretch stretch = Whole(tokens);
  stretch.rope = AtOnce(stretch.before, stretch.tokens);
  return logits_ = Read(tokens, {stretch}, Last);
}

at::Tensor EagerDecoder::AppendAll(const at::Tensor& tokens) { return Read(tokens, {Whole(tokens)}, Each); }

// Products take all tokens in one row; attention takes each piece as a stretch.
const at::Tensor& EagerDecoder::AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) {
  cache_.Check(pieces, tokens.numel());
  std::vector<Stretch> stretches;
  std::vector<int64_t> lasts;
  int64_t end = 0;
  for (const Piece& piece : pieces) {
    const int64_t before = cache_.lengths[static_cast<std::size_t>(piece.sequence)];
    stretches.push_back({.first = piece.sequence,
                         .before = before,
                         .tokens = piece.tokens,
                         .masks = PromptMasks(before, piece.tokens),
                         .rope = AtOnce(before, piece.tokens)});
    lasts.push_back((end += piece.tokens) - 1);
  }
  const at::Tensor rows = at::tensor(lasts, weights_.embedding.options().dtype(at::kLong));
  return logits_ = Read(tokens.view({1, -1}), stretches,
                        [&](const at::Tensor& x) { return x.select(0, 0).index_select(0, rows); });
}

const at::Tensor& EagerDecoder::AppendOne(const at::Tensor& tokens) { return Append(tokens.unsqueeze(1)); }

const at::Tensor& EagerDecoder::AppendOneByOne(const at::Tensor& tokens) {
  return logits_ = Read(tokens, {Whole(tokens)}, Last);
}

at::Tensor EagerDecoder::Queries(int64_t sequences, int64_t tokens) const {
  const at::Tensor heads = at::zeros({sequences, tokens, n_.heads, cache_.keys.size(-1)}, cache_.options);
  return rope_.Rotate(heads.transpose(1, 2), 0);
}

// cuDNN makes a plan for every number of tokens.
void EagerDecoder::Prepare(int64_t sequences, int64_t tokens) {
  if (cache_.keys.is_cpu() || tokens == 1) return;
  const at::Tensor q = Queries(sequences, tokens);
  for (const auto& [window, mask] : PromptMasks(0, tokens)) {
    const auto [k, v] = cache_.Read({.sequences = sequences, .tokens = tokens});
    Weighted(q, k, v, mask, /*causal=*/!mask);
  }
}

std::optional<int64_t> EagerDecoder::AttentionBackend(int64_t keys) const {
  if (weights_.config.score_cap > 0) return std::nullopt;
  // For the layers that attend to most keys.
  const auto [k, v] = cache_.Read({.sequences = batch_, .tokens = Attended(keys, *windows_.begin())});
  const WithoutCudnnAttention fused;
  return roofbench::AttentionBackend(Queries(batch_, 1), k, v, std::nullopt, /*causal=*/false);
}

std::optional<int64_t> EagerDecoder::AttentionBackendOfSet() const {
  if (weights_.config.score_cap > 0) return std::nullopt;
  const at::Tensor mask = at::zeros({1, cache_.capacity}, cache_.keys.options().dtype(at::kBool));
  const WithoutCudnnAttention fused;
  return roofbench::AttentionBackend(Queries(batch_, 1), cache_.keys[0], cache_.values[0], mask, /*causal=*/false);
}

void EagerDecoder::SetToken(const at::Tensor& tokens) {
  cache_.CheckRoom(cache_.length(), 1);
  if (!token_.defined()) {
    const auto options = weights_.embedding.options().dtype(at::kLong);
    token_ = at::empty({batch_, 1}, options);
    position_ = at::empty({1}, options);
  }
  token_.copy_(tokens.unsqueeze(1));
  position_.fill_(cache_.length());
}

void EagerDecoder::AppendSet() {
  const at::Tensor keys = at::arange(cache_.capacity, position_.options());
  std::map<int64_t, at::Tensor> masks;
  for (const int64_t window : windows_) masks[window] = Mask(position_.unsqueeze(1), keys, window);
  const auto attend = [&](const at::Tensor& qkv, int64_t layer) {
    return AttendSet(qkv, layer, masks.at(weights_.config.WindowOf(layer)));
  };
  logits_ = Forward(token_, attend, Last);
}

const at::Tensor& EagerDecoder::CountSet() {
  cache_.SetLength(cache_.length() + 1);
  return logits_;
}

at::Tensor EagerDecoder::Norm(const at::Tensor& x, const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  if (norm_ && !exact()) {
    if (at::Tensor y = norm_(x, weight); y.defined()) return y;
  }
  const double epsilon = weights_.config.rms_epsilon;
  if (!weights_.config.shape.fp32_norms) return Passed(RmsNorm(x, weight.to(x.scalar_type()), epsilon));
  return Passed(RmsNorm(x.to(at::kFloat), weight, epsilon).to(x.scalar_type()));
}

at::Tensor EagerDecoder::SumOverRanks(const at::Tensor& term) const {
  if (hooks_ == nullptr) return term;
  at::Tensor sum = hooks_->FromShards(term);
  End(DecoderComponent::kWait);
  return sum;
}

at::Tensor EagerDecoder::Linear(const StoredMatrix& matrix, const at::Tensor& x, int64_t expert) const {
  const at::Tensor rows = x.reshape({-1, matrix.columns});
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = matrix.rows;
  const double threshold = weights_.storage.outlier_threshold;
  if (exact()) return Passed(matrix.ApplyExactly(rows, expert, threshold).view(shape));
  OutlierTally* const tally = matrix.format == workload::WeightFormat::kLlmInt8 ? &tally_ : nullptr;
  if (int8_threads_ != nullptr && matrix.MultipliesIntegers()) {
    return ByIntegers(rows, matrix, expert, tally).view(shape);
  }
  if (int8_product_ && matrix.format == workload::WeightFormat::kInt8 && !matrix.int8_activations) {
    const at::Tensor y = int8_product_(rows, matrix.weight[expert], matrix.scale[expert]);
    if (y.defined()) return y.view(shape);
  }
  if (stored_ && !matrix.IsPlain() && !matrix.MultipliesIntegers()) {
    if (const at::Tensor y = stored_(rows, matrix, expert); y.defined()) return y.view(shape);
  }
  return matrix.Apply(rows, expert, threshold, marker_, tally, linear_).view(shape);
}

at::Tensor EagerDecoder::ByIntegers(const at::Tensor& rows, const StoredMatrix& matrix, int64_t expert,
                                    OutlierTally* tally) const {
  constexpr int64_t kPanel = 32;  // rows of a weight that our kernels process together
  const at::Tensor vectors = rows.contiguous();
  const kernels::Int8Activations& quantized =
      quantized_.Of(vectors, matrix.Threshold(weights_.storage.outlier_threshold), matrix.SummedGroup(), *int8_threads_,
                    marker_, tally);
  const observe::Range kernel("roofbench::llm_int8 product");
  at::Tensor y = at::empty({vectors.size(0), matrix.rows}, vectors.options());
  (*int8_threads_)(matrix.rows, kPanel, [&](kernels::Range range) {
    matrix.MultiplyIntegers(expert, quantized, Elements<kernels::Bf16>(y), range);
  });
  if (marker_) marker_(Int8Stage::kProduct);
  return y;
}

at::Tensor EagerDecoder::AddBias(const at::Tensor& y, const at::Tensor& bias) const {
  return bias.defined() ? Passed(y + bias.to(y.scalar_type())) : y;
}

at::Tensor EagerDecoder::Qkv(const LayerWeights& layer, const at::Tensor& x) const {
  const int64_t heads = n_.heads + 2 * n_.kv_heads;
  if (!linear_ || !layer.qkv.IsPlain()) return SplitHeads(AddBias(Linear(layer.qkv, x), layer.qkv_bias), heads);
  std::optional<at::Tensor> bias;
  if (layer.qkv_bias.defined()) bias = layer.qkv_bias.to(x.scalar_type());
  const at::Tensor y = linear_(x.reshape({-1, layer.qkv.columns}), layer.qkv.weight[0], bias);
  return SplitHeads(y.view({x.size(0), x.size(1), layer.qkv.rows}), heads);
}

at::Tensor EagerDecoder::WithHeadNorms(const LayerWeights& layer, const at::Tensor& heads) const {
  if (!layer.query_norm.defined()) return heads;
  return at::cat({Norm(heads.narrow(1, 0, n_.heads), layer.query_norm),
                  Norm(heads.narrow(1, n_.heads, n_.kv_heads), layer.key_norm),
                  heads.narrow(1, n_.heads + n_.kv_heads, n_.kv_heads)},
                 1);
}

at::Tensor EagerDecoder::Mask(const at::Tensor& queries, const at::Tensor& keys, int64_t window) {
  const at::Tensor before = keys.unsqueeze(0).le(queries);
  return window > 0 ? before.bitwise_and(keys.unsqueeze(0).gt(queries - window)) : before;
}

EagerDecoder::Masks EagerDecoder::PromptMasks(int64_t before, int64_t tokens) const {
  Masks masks;
  for (const int64_t window : windows_) masks[window] = PromptMask(before, tokens, window);
  return masks;
}

std::optional<at::Tensor> EagerDecoder::PromptMask(int64_t before, int64_t tokens, int64_t window) const {
  const int64_t end = before + tokens;
  if (tokens == 1 || AttendsByGiven(end, window)) return std::nullopt;
  if (before == 0 && !IsWindowed(end, window)) return std::nullopt;  // a causal mask is enough
  const auto whole = cache_.keys.options().dtype(at::kLong);
  return Mask(at::arange(before, end, whole).unsqueeze(1), at::arange(end, whole), window);
}

at::Tensor EagerDecoder::Turned(const at::Tensor& heads, const Stretch& stretch) const {
  const RotaryTable& table = stretch.rope ? *stretch.rope : rope_;
  const int64_t first = stretch.rope ? 0 : stretch.before;
  const auto of_tokens = [&](const at::Tensor& angles) { return angles.narrow(0, first, heads.size(2)); };
  if (turn_ && turn_(heads, of_tokens(table.cosines()), of_tokens(table.sines()))) return heads;
  return table.Rotate(heads, first);
}

at::Tensor EagerDecoder::Attend(const at::Tensor& qkv, int64_t layer, const std::vector<Stretch>& stretches) {
  if (stretches.size() == 1) return Attend(qkv, layer, stretches.front());
  std::vector<at::Tensor> attended;
  int64_t begin = 0;
  for (const Stretch& one : stretches) {
    attended.push_back(Attend(qkv.narrow(2, begin, one.tokens), layer, one));
    begin += one.tokens;
  }
  return at::cat(attended, 2);
}

at::Tensor EagerDecoder::Attend(const at::Tensor& qkv, int64_t layer, const Stretch& stretch) {
  const auto& [first, sequences, before, tokens, masks, rope] = stretch;
  const int64_t end = before + tokens;
  const int64_t window = weights_.config.WindowOf(layer);
  const std::optional<at::Tensor>& mask = masks.at(window);
  const at::Tensor q = Passed(Turned(qkv.narrow(1, 0, n_.heads), stretch));
  cache_.Write({.layer = layer, .first = first, .sequences = sequences, .begin = before, .tokens = tokens},
               Passed(Turned(qkv.narrow(1, n_.heads, n_.kv_heads), stretch)),
               qkv.narrow(1, n_.heads + n_.kv_heads, n_.kv_heads));
  const int64_t begin = tokens == 1 ? end - Attended(end, window) : 0;
  // Attends to the contents of the cache, so that the pieces in which a prompt comes do not matter.
  const auto [k, v] =
      (attended_ ? *attended_ : cache_)
          .Read({.layer = layer, .first = first, .sequences = sequences, .begin = begin, .tokens = end - begin});
  if (tokens > 1 && AttendsByGiven(end, window)) return attend_prompt_(q, k, v);
  return Weighted(q, k, v, mask, /*causal=*/tokens > 1 && !mask);
}

at::Tensor EagerDecoder::AttendSet(const at::Tensor& qkv, int64_t layer, const at::Tensor& mask) {
  TORCH_CHECK(!cache_.Is8Bits(), "a recording does not support a cache in 8 bits");
  at::Tensor keys = cache_.keys[layer];
  at::Tensor values = cache_.values[layer];
  keys.index_copy_(2, position_, rope_.RotateAt(qkv.narrow(1, n_.heads, n_.kv_heads), position_));
  values.index_copy_(2, position_, qkv.narrow(1, n_.heads + n_.kv_heads, n_.kv_heads));
  return Weighted(rope_.RotateAt(qkv.narrow(1, 0, n_.heads), position_), keys, values, mask, /*causal=*/false);
}

at::Tensor EagerDecoder::Weighted(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const std::optional<at::Tensor>& mask, bool causal) const {
  const DecoderConfig& config = weights_.config;
  const double scale = config.ScoreScale();
  if (config.score_cap > 0) {
    return CappedAttention{.scale = scale, .cap = config.score_cap}(q, k, v, mask, causal);
  }
  // The numbers of keys of whole prompts are few.
  std::optional<WithoutCudnnAttention> fused;
  if (q.size(2) == 1 || q.size(2) < k.size(2)) fused.emplace();
  return at::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale, n_.heads != n_.kv_heads);
}

at::Tensor EagerDecoder::Expert(const LayerWeights& layer, const at::Tensor& x, int64_t expert) const {
  at::Tensor hidden;
  {
    const at::Tensor gate_up = Linear(layer.gate_up, x, expert);
    End(DecoderComponent::kGateUp);
    const bool is_silu = weights_.config.gate == Gate::kSilu;
    if (gate_ && is_silu && !exact()) hidden = gate_(gate_up);
    if (!hidden.defined()) {
      const std::vector<at::Tensor> halves = gate_up.chunk(2, -1);
      hidden = is_silu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh");
      hidden = Passed(hidden.mul_(halves[1]));
    }
  }
  End(DecoderComponent::kGate);
  at::Tensor y = Linear(layer.down, hidden, expert);
  End(DecoderComponent::kDown);
  return y;
}

at::Tensor EagerDecoder::Mlp(const LayerWeights& layer, const at::Tensor& x) const {
  if (!weights_.config.shape.IsMixture()) return Expert(layer, x, 0);
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  // The weights of the chosen experts add up to one.
  const auto active = static_cast<int64_t>(weights_.config.shape.active_experts);
  auto [weight, chosen] = at::topk(at::softmax(Linear(layer.router, rows), -1, at::kFloat), active, -1);
  weight = (weight / weight.sum(-1, /*keepdim=*/true)).to(x.scalar_type());
  End(DecoderComponent::kRouter);
  const auto multiply = rows.is_cpu()                                                     ? &EagerDecoder::ByExpert
                        : TakesChosenExperts(rows.size(0), active, layer.gate_up.experts) ? &EagerDecoder::ByChosen
                        : rows.size(0) <= kMostMasked                                     ? &EagerDecoder::ByMask
                                                                                          : &EagerDecoder::ByExpert;
  at::Tensor y = (this->*multiply)(layer, rows, chosen, weight).view(x.sizes());
  End(DecoderComponent::kDown);
  return y;
}

// Copies the chosen weights on the device, as in gpt_fast; the host does not know which they are.
at::Tensor EagerDecoder::ByChosen(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                                  const at::Tensor& weight) const {
  const at::Tensor slots = chosen.reshape({-1});
  const at::Tensor weights = weight.reshape({-1, 1});
  const LayerWeights own{.gate_up = layer.gate_up.Experts(slots), .down = layer.down.Experts(slots)};
  at::Tensor y = at::zeros_like(rows);
  for (int64_t slot = 0; slot < slots.size(0); ++slot) {
    const int64_t token = slot / chosen.size(1);
    y.narrow(0, token, 1).add_(Expert(own, rows.narrow(0, token, 1), slot) * weights.narrow(0, slot, 1));
  }
  return y;
}

// Every expert takes every token; tokens that did not choose it are zeros, so that an infinity from them cannot spread.
at::Tensor EagerDecoder::ByMask(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                                const at::Tensor& weight) const {
  const int64_t experts = layer.gate_up.experts;
  const at::Tensor share = at::zeros({rows.size(0), experts}, weight.options()).scatter_(1, chosen, weight);
  const at::Tensor absent = at::ones({rows.size(0), experts}, rows.options().dtype(at::kBool)).scatter_(1, chosen, 0);
  at::Tensor y = at::zeros_like(rows);
  for (int64_t expert = 0; expert < experts; ++expert) {
    const at::Tensor own = rows.masked_fill(absent.narrow(1, expert, 1), 0);
    y.addcmul_(Expert(layer, own, expert), share.narrow(1, expert, 1));
  }
  return y;
}

// Each expert takes its tokens at once; the host reads their numbers once.
at::Tensor EagerDecoder::ByExpert(const LayerWeights& layer, const at::Tensor& rows, const at::Tensor& chosen,
                                  const at::Tensor& weight) const {
  const at::Tensor slots = chosen.reshape({-1});
  const at::Tensor order = at::argsort(slots, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor tokens = order.div(chosen.size(1), "floor");
  const at::Tensor weights = weight.reshape({-1, 1}).index_select(0, order);
  const at::Tensor counts =
      slots.unsqueeze(1).eq(at::arange(layer.gate_up.experts, slots.options())).sum(0).to(at::kCPU);
  at::Tensor y = at::zeros_like(rows);
  int64_t first = 0;
  for (int64_t expert = 0; expert < layer.gate_up.experts; ++expert) {
    const int64_t count = counts.const_data_ptr<int64_t>()[expert];
    if (count == 0) continue;
    const at::Tensor own = tokens.narrow(0, first, count);
    y.index_add_(0, own, Expert(layer, rows.index_select(0, own), expert) * weights.narrow(0, first, count));
    first += count;
  }
  return y;
}

const at::Tensor& RecordedDecoder::AppendOne(const at::Tensor& tokens) {
  SetToken(tokens);
  if (replay_) {
    CountSet();
  } else {
    replay_ = record_([this] { AppendSet(); });
    replayed_ = CountSet();
  }
  replay_();
  return replayed_;
}

}  // namespace roofbench::models
