// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/native_step.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <type_traits>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/decode_attention.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/stored_rows.h"
#include "lib/kernels/operators/rows/norm.h"

namespace roofbench::models {
namespace {

// A NaN comes first, so that it makes the token NaN, as the softmax over all would.
float Rank(float logit) { return std::isnan(logit) ? std::numeric_limits<float>::infinity() : logit; }

}  // namespace

ExpertPlan::ExpertPlan(int64_t tokens, int64_t experts, int64_t active)
    : active_(active),
      logits_(Size(experts)),
      is_taken_(Size(experts)),
      chosen_(Size(tokens * active)),
      begins_(Size(experts + 1)),
      tokens_(Size(tokens * active)),
      weights_(Size(tokens * active), 1.0F) {
  if (experts > 1) return;
  std::iota(tokens_.begin(), tokens_.end(), 0);
  begins_ = {0, tokens};
}

void ExpertPlan::Choose(int64_t token) {
  const auto own = std::span(chosen_).subspan(Size(token * active_), Size(active_));
  std::ranges::fill(is_taken_, char{0});
  for (auto& [expert, weight] : own) {
    // A token may not choose an expert twice, whatever the logits: an expert has room for each token once.
    std::size_t best = logits_.size();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (is_taken_[i] == 0 && (best == logits_.size() || Rank(logits_[i]) > Rank(logits_[best]))) best = i;
    }
    is_taken_[best] = 1;
    expert = static_cast<int64_t>(best);
    weight = logits_[best];
  }
  // The softmax over all, restricted to the chosen and normalized, is the softmax over the chosen.
  const float largest = own.front().second;
  float sum = 0;
  for (auto& [expert, weight] : own) {
    weight = std::exp(weight - largest);
    sum += weight;
  }
  for (auto& [expert, weight] : own) weight /= sum;
}

void ExpertPlan::Assign(int64_t tokens) {
  std::size_t slot = 0;
  if (logits_.size() == 1) {
    begins_.back() = tokens;
    return;
  }
  for (std::size_t expert = 0; expert < logits_.size(); ++expert) {
    begins_[expert] = static_cast<int64_t>(slot);
    for (std::size_t i = 0; i < Size(tokens * active_); ++i) {
      if (chosen_[i].first != static_cast<int64_t>(expert)) continue;
      tokens_[slot] = static_cast<int64_t>(i) / active_;
      weights_[slot++] = chosen_[i].second;
    }
  }
  begins_.back() = static_cast<int64_t>(slot);
}

namespace {

using kernels::Bf16;
using kernels::Range;
using kernels::Worker;
using workload::WeightFormat;

template <typename Weight, typename T, typename... Converted>
void MultiplyRows(const Weight& first, const RegionProduct<T>& work, Range rows, const Converted&... x) {
  RunRows(kernels::Gemv<Weight, T, float>{kernels::Expert(first, work.expert), work.x, work.y, work.m}, x..., rows);
}

}  // namespace

int64_t RowGrain(const StoredMatrix& matrix) {
  return matrix.format == WeightFormat::kInt4 ? kernels::kInt4TileRows : 1;
}

template <typename T>
RegionProducts<T>::RegionProducts(const Sizes& sizes, double outlier_threshold, const kernels::TileLinearKernels* tiles,
                                  int threads)
    : outlier_threshold_(outlier_threshold), tiles_(tiles), shares_(sizes.products), scratch_(Size(threads)) {
  for (Scratch& s : scratch_) s.quantized = {sizes.vectors, sizes.widest};
  if (tiles == nullptr || sizes.vectors < tiles->least_rows) return;
  const int64_t steps = kernels::TileSteps(sizes.widest * int64_t{sizeof(T)});
  for (Scratch& s : scratch_) s.packed = at::empty({kernels::PanelBytes(sizes.vectors, steps)}, at::kByte);
}

template <typename T>
void RegionProducts<T>::Restart() {
  shares_.Restart();
  tally_ = {};
  tile_products_ = 0;
  for (Scratch& s : scratch_) s.product = 0;
}

template <typename T>
const kernels::Int8Activations& RegionProducts<T>::Prepare(const Worker& worker, const RegionProduct<T>& work) {
  Scratch& own = scratch_[Size(worker.index())];
  kernels::Int8Activations& made = own.quantized;
  if constexpr (std::is_same_v<T, Bf16>) {
    const StoredMatrix& matrix = work.matrix;
    if (matrix.MultipliesIntegers()) {
      const auto threshold = static_cast<float>(matrix.Threshold(outlier_threshold_));
      Mark(worker, Int8Stage::kOther);
      made.Select(work.x, work.m, matrix.columns, threshold, kernels::SerialFor());
      if (worker.index() == 0 && matrix.format == WeightFormat::kLlmInt8)
        tally_.Add(static_cast<int64_t>(made.outliers().size()));
      Mark(worker, Int8Stage::kSelect);
      made.Quantize(work.x, kernels::SerialFor(), matrix.SummedGroup());
      Mark(worker, Int8Stage::kQuantize);
    }
    if (TakesTiles(work)) {
      tiles_->pack(work.x, work.m, matrix.columns, own.Packed(), kernels::SerialFor());
      if (worker.index() == 0) ++tile_products_;
    } else if (matrix.format == WeightFormat::kInt8 || matrix.format == WeightFormat::kInt4) {
      if (!matrix.MultipliesIntegers()) {
        own.fixed.Convert(work.x, work.m, matrix.columns, matrix.SummedGroup(), kernels::SerialFor());
      }
    }
  }
  return made;
}

template <typename T>
void RegionProducts<T>::Multiply(const Worker& worker, const RegionProduct<T>& work,
                                 const kernels::Int8Activations& quantized, Range rows) {
  if (rows.size() <= 0) return;
  const StoredMatrix& matrix = work.matrix;
  if constexpr (std::is_same_v<T, Bf16>) {
    if (matrix.MultipliesIntegers()) {
      matrix.MultiplyIntegers(work.expert, quantized, work.y, rows);
      return Mark(worker, Int8Stage::kProduct);
    }
    if (TakesTiles(work)) {
      const bool is_plain = matrix.format == WeightFormat::kBf16;
      const kernels::StoredInt4 stored(is_plain ? kernels::Int4Weight() : matrix.Int4Rows(work.expert, 0, matrix.rows));
      return tiles_->run_columns_to_floats(
          {.x = scratch_[Size(worker.index())].Packed(),
           .w = is_plain ? Elements<T>(matrix.weight) + work.expert * matrix.rows * matrix.columns : nullptr,
           .stored = is_plain ? nullptr : &stored,
           .y = work.y,
           .m = work.m,
           .n = matrix.rows,
           .k = matrix.columns},
          rows);
    }
    const kernels::FixedPointVectors& fixed = scratch_[Size(worker.index())].fixed;
    if (matrix.format == WeightFormat::kInt8) return MultiplyRows(matrix.Int8Rows(), work, rows, fixed);
    if (matrix.format == WeightFormat::kInt4) {
      return MultiplyRows(matrix.Int4Rows(0, 0, matrix.rows), work, rows, fixed);
    }
  }
  MultiplyRows(kernels::PlainWeight<T>{Elements<T>(matrix.weight), matrix.rows, matrix.columns}, work, rows);
}

template <typename T>
void RegionProducts<T>::Divide(const Worker& worker, const RegionProduct<T>& work, int64_t rows,
                               kernels::FunctionRef<void(Range)> body, bool evenly) {
  const StoredMatrix& matrix = work.matrix;
  // A part of a panel takes the time of a whole one.
  const bool in_panels = TakesTiles(work) || (work.m > 1 && matrix.MultipliesIntegers());
  const int64_t grain = in_panels ? kernels::kPanelRows : RowGrain(matrix);
  const int64_t product = scratch_[Size(worker.index())].product++;
  // The stages of LLM.int8() are reported for each piece, so their number must not vary.
  if (evenly || matrix.format == WeightFormat::kLlmInt8) return body(worker.Own(rows, grain));
  constexpr int64_t kLeastBytes = 1 << 16;  // take microseconds
  const int64_t row_bytes = matrix.nbytes() / (matrix.experts * rows);
  const int64_t least = std::max<int64_t>(1, kLeastBytes / std::max<int64_t>(1, row_bytes));
  shares_.Divide(worker, product, rows, grain, least, body);
}

template class RegionProducts<float>;
template class RegionProducts<Bf16>;

using kernels::SerialFor;

ResidualStream::ResidualStream(int64_t tokens, int64_t d, float epsilon, int threads, bool is_own)
    : d_(d), epsilon_(epsilon) {
  const auto elements = static_cast<std::size_t>(tokens * d);
  const auto copies = static_cast<std::size_t>(is_own ? threads : 1);
  own_.assign(copies, std::vector<float>(elements));
  if (is_own) normed_ = own_;
}

template <typename T>
void ResidualStream::Begin(const Worker& worker, const T* table, const int64_t* ids, int64_t tokens, float scale) {
  float* const to = of(worker);
  const auto fill = [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i)
      to[i] = scale * kernels::ToFloat(table[ids[i / d_] * d_ + i % d_]);
  };
  is_own() ? fill({0, tokens * d_}) : worker(tokens * d_, fill);
}

template <typename T>
void ResidualStream::Norm(const Worker& worker, const at::Tensor& weight, int64_t tokens, T* to) {
  const PartRange range(worker, "roofbench::rms_norm");
  Run(
      kernels::RmsNorm<float, T>{
          .x = of(worker), .y = to, .weight = Elements<float>(weight), .rows = tokens, .cols = d_, .eps = epsilon_},
      SerialFor());
}

void ResidualStream::AddNormed(const Worker& worker, const at::Tensor& weight, int64_t tokens, const float* added) {
  const PartRange range(worker, "roofbench::rms_norm");
  float* const normed = normed_[Index(worker)].data();
  Run(
      kernels::RmsNorm<float>{
          .x = added, .y = normed, .weight = Elements<float>(weight), .rows = tokens, .cols = d_, .eps = epsilon_},
      SerialFor());
  float* const residual = of(worker);
  for (int64_t i = 0; i < tokens * d_; ++i) residual[i] += normed[i];
}

template void ResidualStream::Begin(const Worker&, const float*, const int64_t*, int64_t, float);
template void ResidualStream::Begin(const Worker&, const Bf16*, const int64_t*, int64_t, float);
template void ResidualStream::Norm(const Worker&, const at::Tensor&, int64_t, float*);
template void ResidualStream::Norm(const Worker&, const at::Tensor&, int64_t, Bf16*);

namespace {

template <typename T>
void NormHeads(const TokenAttention<T>& work, const at::Tensor& weight, float* heads, int64_t count) {
  if (!weight.defined()) return;
  Run(kernels::RmsNorm<float>{.x = heads,
                              .y = heads,
                              .weight = Elements<float>(weight),
                              .rows = count,
                              .cols = work.n.dim,
                              .eps = work.epsilon},
      SerialFor());
}

// Rotates contiguous heads by the angles of `position`.
void Rotate(const RotaryTable& rope, int64_t position, float* heads, int64_t count, int64_t dim) {
  const int64_t pairs = rope.cosines().size(1);
  const int64_t angles = position * pairs;
  Run(kernels::Rope<float>{.x = heads,
                           .y = heads,
                           .cosines = Elements<float>(rope.cosines()) + angles,
                           .sines = Elements<float>(rope.sines()) + angles,
                           .rows = count,
                           .positions = 1,
                           .cols = 2 * pairs,
                           .x_stride = dim,
                           .y_stride = dim},
      SerialFor());
}

// The rows of a head in a cache of C, keys or values.
template <typename C>
struct HeadRows {
  HeadRows(const at::Tensor& all, const at::Tensor& all_scales, int64_t row, int64_t columns)
      : elements(Elements<C>(all) + row * columns), dim(columns) {
    if (all_scales.defined()) scales = Elements<float>(all_scales) + row;
  }

  C* elements;
  float* scales = nullptr;  // of an 8-bit cache
  int64_t dim;

  const C* From(int64_t row) const { return elements + row * dim; }
  const float* ScalesFrom(int64_t row) const { return scales == nullptr ? nullptr : scales + row; }

  void Keep(const float* x, int64_t row) const {
    if constexpr (std::is_same_v<C, int8_t>) {
      scales[row] = RoundTo8Bits(x, dim, elements + row * dim);
    } else {
      std::transform(x, x + dim, elements + row * dim, kernels::Rounded<C>);
    }
  }
};

// C: the type of the cache, T or int8_t. Token `index` of a sequence, for one head of keys.
template <typename T, typename C>
void RunToken(const TokenAttention<T>& work, std::size_t place, int64_t index, int64_t head, C /*element*/) {
  const DecoderSizes& n = work.n;
  const int64_t dim = n.dim;
  const int64_t group = n.heads / n.kv_heads;
  const int64_t sequence = work.sequences[place];
  const int64_t position = work.cache.lengths[static_cast<std::size_t>(sequence)] + index;
  const int64_t first = work.window > 0 ? std::max<int64_t>(0, position + 1 - work.window) : 0;
  const int64_t token = static_cast<int64_t>(place) * work.each + index;
  float* const q = work.qkv + token * n.qkv() + head * group * dim;
  float* const k = work.qkv + token * n.qkv() + (n.heads + head) * dim;
  const float* const v = k + n.kv_heads * dim;
  NormHeads(work, work.query_norm, q, group);
  NormHeads(work, work.key_norm, k, 1);
  Rotate(work.rope, position, q, group, dim);
  Rotate(work.rope, position, k, 1, dim);
  const auto batch = static_cast<int64_t>(work.cache.lengths.size());
  const int64_t row = ((work.layer * batch + sequence) * n.kv_heads + head) * work.cache.capacity;
  const HeadRows<C> keys(work.cache.keys, work.cache.key_scales, row, dim);
  const HeadRows<C> values(work.cache.values, work.cache.value_scales, row, dim);
  keys.Keep(k, position);
  values.Keep(v, position);
  const int64_t begin = (token * n.kv_heads + head) * group * dim;
  float* const y = work.y + begin;
  kernels::RunHeads(kernels::DecodeAttention<C>{.q = q,
                                                .keys = keys.From(first),
                                                .values = values.From(first),
                                                .key_scales = keys.ScalesFrom(first),
                                                .value_scales = values.ScalesFrom(first),
                                                .y = y,
                                                .heads = 1,
                                                .group = group,
                                                .head_dim = dim,
                                                .length = position + 1 - first,
                                                .capacity = work.cache.capacity,
                                                .scale = work.scale,
                                                .cap = work.cap},
                    {0, 1});
  std::transform(y, y + group * dim, work.rounded + begin, kernels::Rounded<T>);
}

// In the order of tokens: each attends to those before it, which are in the cache by then.
template <typename T, typename C>
void RunItemsOf(const TokenAttention<T>& work, Range range, C element) {
  for (int64_t item = range.begin; item < range.end; ++item) {
    const auto place = static_cast<std::size_t>(item / work.n.kv_heads);
    for (int64_t index = 0; index < work.each; ++index) RunToken(work, place, index, item % work.n.kv_heads, element);
  }
}

}  // namespace

template <typename T>
void RunItems(const TokenAttention<T>& work, Range range) {
  if (work.cache.Is8Bits()) {
    RunItemsOf(work, range, int8_t());
  } else {
    RunItemsOf(work, range, T());
  }
}

template void RunItems(const TokenAttention<float>&, Range);
template void RunItems(const TokenAttention<Bf16>&, Range);

}  // namespace roofbench::models
