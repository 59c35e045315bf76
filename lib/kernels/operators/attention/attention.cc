// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/kernels/operators/attention/attention_variant.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/simd/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/attention/attention.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

// A word is a float.
HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// At most the unit in which panels are counted.
using Tag = hn::CappedTag<float, kVectorWords>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kRows = 4;
// As many sums as there are registers for.
constexpr int64_t kMostVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;

template <int64_t kVectors>
HWY_INLINE void Columns(const PanelProduct& panel, int64_t column) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* const c = panel.c.data + column;
  Vec sums[kRows][kVectors];
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[i][v] = panel.add ? hn::LoadU(d, c + i * panel.c.stride + v * lanes) : hn::Zero(d);
    }
  }
  const float* b = panel.b.data + column;
  for (int64_t step = 0; step < panel.steps; ++step, b += panel.b.stride) {
    Vec right[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    for (int64_t i = 0; i < kRows; ++i) {
      const Vec left = hn::Set(d, panel.a.data[i * panel.a.stride + step]);
      for (int64_t v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(left, right[v], sums[i][v]);
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, c + i * panel.c.stride + v * lanes);
  }
}

void Product(const PanelProduct& panel) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  const int64_t columns = panel.vectors * kVectorWords;
  int64_t column = 0;
  for (; column + kMostVectors * lanes <= columns; column += kMostVectors * lanes) Columns<kMostVectors>(panel, column);
  for (; column < columns; column += lanes) Columns<1>(panel, column);
}

void Weigh(const ScoreRow& row) {
  const FloatTag d;
  const auto seen = static_cast<std::size_t>(row.seen);
  const float now = MaximumOf(row.scores, seen) * row.scale;
  if (now > *row.largest) {
    const float shrink = std::exp(*row.largest - now);
    for (int64_t i = 0; i < row.width; ++i) row.sum[i] *= shrink;
    *row.weight *= shrink;
    *row.largest = now;
  }
  // Where every score so far is -infinity, the weights are zero and not NaN.
  const bool none = *row.largest == -std::numeric_limits<float>::infinity();
  const FloatVec largest = hn::Set(d, none ? 0.0F : *row.largest);
  const FloatVec scale = hn::Set(d, row.scale);
  FloatVec sums = hn::Zero(d);
  for (std::size_t i = 0; i < seen; i += FloatLanes()) {
    const FloatVec x = hn::MulSub(LoadSome(row.scores + i, seen - i), scale, largest);
    const FloatVec weight = KeepFirst(Exponential(x), seen - i);
    StoreSome(weight, row.scores + i, seen - i);
    sums = hn::Add(sums, weight);
  }
  std::fill(row.scores + row.seen, row.scores + row.until, 0.0F);
  *row.weight += SumOf(sums);
}

template <typename T>
void Finish(const float* sum, float scale, int64_t dim, T* y) {
  StoreScaled(sum, static_cast<std::size_t>(dim), scale, y);  // whole vectors of `sum` exist
}

void WeighGradient(const GradientRows& rows) {
  const FloatVec scale = hn::Set(FloatTag(), rows.scale);
  const auto end = static_cast<std::size_t>(rows.end);
  for (float* const row : {rows.scores, rows.products}) {
    std::fill(row + rows.begin, row + rows.first[0], 0.0F);
    std::fill(row + rows.end, row + rows.until, 0.0F);
  }
  for (auto i = static_cast<std::size_t>(rows.first[0]); i < end; i += FloatLanes()) {
    const std::size_t some = end - i;
    const FloatVec score = LoadSome(rows.scores + i, some);
    const FloatVec p = Exponential(hn::MulSub(score, scale, LoadSome(rows.log_sum_exp + i, some)));
    const FloatVec product = hn::Sub(LoadSome(rows.products + i, some), LoadSome(rows.corrections + i, some));
    StoreSome(p, rows.scores + i, some);
    StoreSome(hn::Mul(p, product), rows.products + i, some);
  }
}

template <typename T>
float Dot(const T* a, const T* b, int64_t n) {
  const auto count = static_cast<std::size_t>(n);
  FloatVec sum = hn::Zero(FloatTag());
  for (std::size_t i = 0; i < count; i += FloatLanes()) {
    sum = hn::MulAdd(LoadSome(a + i, count - i), LoadSome(b + i, count - i), sum);
  }
  return SumOf(sum);
}

template <typename T>
void PackQueries(const T* from, int64_t stride, int64_t count, int64_t dim, int64_t depth, float* to) {
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < dim; ++i) to[row * depth + i] = ToFloat(from[row * stride + i]);
  }
}

template <typename T>
void PackKeys(const T* from, int64_t stride, int64_t count, int64_t dim, int64_t /*depth*/, float* to) {
  // Works on a few keys at a time, whose lines stay in the L1.
  constexpr int64_t kSome = 16;
  for (int64_t first = 0; first < kPanel; first += kSome) {
    for (int64_t i = 0; i < dim; ++i) {
      for (int64_t key = first; key < first + kSome; ++key) {
        to[i * kPanel + key] = key < count ? ToFloat(from[key * stride + i]) : 0;
      }
    }
  }
}

template <typename T>
void PackValues(const T* from, int64_t stride, int64_t count, int64_t columns, float* to) {
  const int64_t width = RoundUp(columns, kVectorWords);
  for (int64_t key = 0; key < kPanel; ++key, to += width) {
    const int64_t there = key < count ? columns : 0;
    for (int64_t i = 0; i < there; ++i) to[i] = ToFloat(from[key * stride + i]);
    std::fill(to + there, to + width, 0.0F);
  }
}

template <typename T>
constexpr AttentionVariant<T> kVariant = {.per_word = 1,
                                          .rows_at_once = kRows,
                                          .steps_at_once = 1,
                                          .log_base = 1,
                                          .pack_queries = PackQueries<T>,
                                          .pack_keys = PackKeys<T>,
                                          .pack_values = PackValues<T>,
                                          .product = Product,
                                          .weigh = Weigh,
                                          .finish = Finish<T>,
                                          .weigh_gradient = WeighGradient,
                                          .dot = Dot<T>};
const AttentionVariant<float>& Fp32Variant() { return kVariant<float>; }
const AttentionVariant<Bf16>& Bf16Variant() { return kVariant<Bf16>; }

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

HWY_EXPORT(Fp32Variant);
HWY_EXPORT(Bf16Variant);

const AttentionVariant<Bf16>& PortableBf16() { return HWY_DYNAMIC_DISPATCH(Bf16Variant)(); }

constexpr IsaVariant<const AttentionVariant<Bf16>& (*)()> kBf16Variants[] = {
#if ROOFBENCH_X86
    {kAmxBf16 | kAvx512Bf16, avx512::AmxBf16AttentionVariant},
    {kAvx512Bf16, avx512::Bf16AttentionVariant},
#endif
    {0, PortableBf16},
};

}  // namespace

template <>
const AttentionVariant<float>& BestAttentionVariant() {
  return HWY_DYNAMIC_DISPATCH(Fp32Variant)();
}
template <>
const AttentionVariant<Bf16>& BestAttentionVariant() {
  return BestVariant<kBf16Variants>()();
}

namespace {

constexpr int64_t kQueries = 64;         // of a block: a panel of keys in the L1 serves them all
constexpr int64_t kKeys = 8 * kPanel;    // of a block: the scores of the queries stay in the L2
constexpr int64_t kValues = 4 * kPanel;  // of a block: their part of the weights comes from the L2 once
// The stride of a row of scores: a power of two would put all rows on the same sets of a cache.
constexpr int64_t kRowWords = kKeys + kVectorWords;

template <typename T>
PackedHeads Packed(const AttentionVariant<T>& variant, const Attention<T>& work) {
  return {variant, work.shape.batch * work.shape.heads, work.shape.keys, work.shape.head_dim};
}

// Blocks of queries, on one thread.
template <typename T>
class QueryBlocks {
 public:
  QueryBlocks(const Attention<T>& work, const AttentionVariant<T>& variant, const PackedHeads& packed)
      : work_(work),
        variant_(variant),
        packed_(packed),
        at_once_(variant.rows_at_once),
        products_on_thread_(variant),
        scale_(work.scale > 0 ? work.scale : 1 / std::sqrt(static_cast<float>(work.shape.head_dim))),
        q_(static_cast<std::size_t>(kQueries * packed.depth)),
        scores_(static_cast<std::size_t>(kQueries * kRowWords)),
        sums_(static_cast<std::size_t>(kQueries * packed.width)) {}

  // Computes query head `member`, counted over the batch, for a block of queries from `first` on.
  void Run(int64_t member, int64_t first) {
    const int64_t batch = member / work_.shape.query_heads();
    const int64_t head = member % work_.shape.query_heads();
    count_ = std::min(kQueries, work_.shape.queries - first);
    rows_ = RoundUp(count_, at_once_);
    std::fill(q_.begin(), q_.end(), 0.0F);
    variant_.pack_queries(work_.q.At(batch, head, first), work_.q.token_stride, count_, work_.shape.head_dim,
                          packed_.depth, q_.data());
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    std::fill_n(largest_, kQueries, -std::numeric_limits<float>::infinity());
    std::fill_n(weights_, kQueries, 0.0F);
    seen_ = work_.shape.causal ? work_.shape.keys - work_.shape.queries + first + 1 : work_.shape.keys + kQueries;
    const int64_t most = std::clamp(seen_ + count_ - 1, int64_t{0}, work_.shape.keys);
    const int64_t packed_head = member / work_.shape.group;
    for (int64_t from = 0; from < most; from += kKeys, seen_ -= kKeys) {
      keys_ = std::min(kKeys, most - from);
      const int64_t panel = from / kPanel;
      Scores(work_.scratch + packed_.Keys(packed_head, panel));
      Weigh();
      Sum(packed_head, from);
    }
    for (int64_t row = 0; row < count_; ++row) {
      const float scale = weights_[row] == 0 ? 0 : 1 / weights_[row];
      if (work_.log_sum_exp != nullptr) {
        work_.log_sum_exp[member * work_.shape.queries + first + row] =
            largest_[row] * variant_.log_base + std::log(weights_[row]);
      }
      variant_.finish(SumOf(row), scale, work_.shape.head_dim, work_.y.At(batch, head, first + row));
    }
  }

 private:
  // Keys of the block that a row sees.
  int64_t SeenBy(int64_t row) const { return std::clamp(seen_ + row, int64_t{0}, keys_); }
  // As SeenBy, for the last of the rows that are computed at once.
  int64_t SeenByAll(int64_t row) const { return SeenBy(row | (at_once_ - 1)); }
  float* ScoresOf(int64_t row) { return scores_.data() + row * kRowWords; }
  float* SumOf(int64_t row) { return sums_.data() + row * packed_.width; }

  void Scores(const float* keys) {
    for (int64_t key = 0; key < keys_; key += kPanel, keys += packed_.key_panel) {
      for (int64_t row = 0; row < rows_; row += at_once_) {
        const int64_t seen = std::min(kPanel, SeenByAll(row) - key);
        if (seen <= 0) continue;
        variant_.product({.a = {q_.data() + row * packed_.depth, packed_.depth},
                          .b = {keys, kPanel},
                          .steps = packed_.depth,
                          .c = {ScoresOf(row) + key, kRowWords},
                          .vectors = CeilDiv(seen, kVectorWords),
                          .add = false});
      }
    }
  }

  void Weigh() {
    for (int64_t row = 0; row < count_; ++row) {
      const int64_t until = SeenByAll(row);
      if (until == 0) continue;
      float* const scores = ScoresOf(row);
      const bool is_capped = work_.cap > 0;
      if (is_capped) {
        kernels::Run(SoftCap{.x = scores, .y = scores, .n = SeenBy(row), .cap = work_.cap, .scale = scale_},
                     SerialFor());
      }
      variant_.weigh({.scores = scores,
                      .seen = SeenBy(row),
                      .until = RoundUp(until, variant_.steps_at_once * variant_.per_word),
                      .scale = is_capped ? 1 : scale_,
                      .sum = SumOf(row),
                      .width = packed_.width,
                      .largest = &largest_[row],
                      .weight = &weights_[row]});
    }
  }

  void Sum(int64_t head, int64_t from) {
    for (int64_t key = 0; key < keys_; key += kValues) {
      for (int64_t column = 0; column < packed_.width; column += kPanel) {
        const int64_t width = std::min(kPanel, packed_.width - column);
        const float* const values = work_.scratch + packed_.Values(head, column, from + key);
        for (int64_t row = 0; row < rows_; row += at_once_) {
          const int64_t seen = std::min(kValues, SeenByAll(row) - key);
          if (seen <= 0) continue;
          variant_.product({.a = {ScoresOf(row) + key / packed_.per_word, kRowWords},
                            .b = {values, width},
                            .steps = CeilDiv(seen, packed_.per_word),
                            .c = {SumOf(row) + column, packed_.width},
                            .vectors = width / kVectorWords,
                            .add = true});
        }
      }
    }
  }

  const Attention<T>& work_;
  const AttentionVariant<T>& variant_;
  const PackedHeads& packed_;
  const int64_t at_once_;  // rows, a power of two
  const ProductsOnThread<T> products_on_thread_;
  const float scale_;
  std::vector<float> q_;       // [kQueries, depth] words
  std::vector<float> scores_;  // [kQueries, kRowWords]
  std::vector<float> sums_;    // [kQueries, width]
  float largest_[kQueries];
  float weights_[kQueries];
  int64_t count_ = 0;  // queries of the block
  int64_t rows_ = 0;   // those, rounded up to rows at once
  int64_t keys_ = 0;   // of the block
  int64_t seen_ = 0;   // keys seen by the first row; each next row sees one more
};

// Block `i` of `blocks` in the order first, last, second, last but one …: under a causal mask later queries see more
// keys, so the alternation gives every part of the order equal work.
constexpr int64_t Alternating(int64_t i, int64_t blocks) { return i % 2 == 0 ? i / 2 : blocks - 1 - i / 2; }

}  // namespace

template <typename T>
int64_t ScratchFloatsWith(const AttentionVariant<T>& variant, const Attention<T>& work) {
  return Packed(variant, work).Floats();
}

template <typename T>
void RunWith(const AttentionVariant<T>& variant, const Attention<T>& work, const ParallelFor& parallel_for) {
  const PackedHeads packed = Packed(variant, work);
  parallel_for(packed.heads * packed.panels, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      PackPanel(variant, packed, i / packed.panels, i % packed.panels, work.shape.keys, work.shape.head_dim, work.k,
                work.v, work.shape.heads, work.scratch);
    }
  });
  const int64_t blocks = CeilDiv(work.shape.queries, kQueries);
  parallel_for(packed.heads * work.shape.group * blocks, [&](Range range) {
    QueryBlocks<T> block(work, variant, packed);
    for (int64_t i = range.begin; i < range.end; ++i) {
      block.Run(i / blocks, Alternating(i % blocks, blocks) * kQueries);
    }
  });
}

template int64_t ScratchFloatsWith(const AttentionVariant<float>& variant, const Attention<float>& work);
template int64_t ScratchFloatsWith(const AttentionVariant<Bf16>& variant, const Attention<Bf16>& work);
template void RunWith(const AttentionVariant<float>& variant, const Attention<float>& work,
                      const ParallelFor& parallel_for);
template void RunWith(const AttentionVariant<Bf16>& variant, const Attention<Bf16>& work,
                      const ParallelFor& parallel_for);

int64_t ScratchFloats(const Attention<float>& work) { return ScratchFloatsWith(BestAttentionVariant<float>(), work); }
int64_t ScratchFloats(const Attention<Bf16>& work) { return ScratchFloatsWith(BestAttentionVariant<Bf16>(), work); }

void Run(const Attention<float>& work, const ParallelFor& parallel_for) {
  RunWith(BestAttentionVariant<float>(), work, parallel_for);
}
void Run(const Attention<Bf16>& work, const ParallelFor& parallel_for) {
  RunWith(BestAttentionVariant<Bf16>(), work, parallel_for);
}

}  // namespace roofbench::kernels
#endif
