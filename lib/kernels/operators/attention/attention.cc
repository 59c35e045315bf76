// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/kernels/operators/attention/attention_variant.h"
#include "lib/kernels/operators/attention/packed_heads.h"
#include "lib/kernels/operators/elementwise/soft_cap.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kQueries = 64;         // of a block: a panel of keys in the L1 serves them all
constexpr int64_t kKeys = 8 * kPanel;    // of a block: the scores of the queries stay in the L2
constexpr int64_t kValues = 4 * kPanel;  // of a block: their part of the weights comes from the L2 once
// Of a row of scores: a power of two would put all rows on the same sets of a cache.
constexpr int64_t kRowWords = kKeys + kVectorWords;

template <typename T>
constexpr IsaVariant<AttentionVariantFunction<T>> kVariants[] = {{0, PortableAttentionVariant<T>}};
template <>
constexpr IsaVariant<AttentionVariantFunction<Bf16>> kVariants<Bf16>[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::Bf16AttentionVariant},
#endif
    {0, PortableAttentionVariant<Bf16>},
};

template <typename T>
PackedHeads Packed(const Attention<T>& work, const AttentionVariant<T>& variant) {
  return {work.shape.batch * work.shape.heads, work.shape.keys, work.shape.head_dim, variant.per_word};
}

// Blocks of queries, on one thread.
template <typename T>
class QueryBlocks {
 public:
  QueryBlocks(const Attention<T>& work, const AttentionVariant<T>& variant, const PackedHeads& packed)
      : work_(work),
        variant_(variant),
        packed_(packed),
        scale_(work.scale > 0 ? work.scale : 1 / std::sqrt(static_cast<float>(work.shape.head_dim))),
        q_(static_cast<std::size_t>(kQueries * packed.depth)),
        scores_(static_cast<std::size_t>(kQueries * kRowWords)),
        sums_(static_cast<std::size_t>(kQueries * packed.width)) {}

  // Of query head `member`, counted over the batch, the queries from `first` on.
  void Run(int64_t member, int64_t first) {
    const int64_t batch = member / work_.shape.query_heads();
    const int64_t head = member % work_.shape.query_heads();
    const int64_t count = std::min(kQueries, work_.shape.queries - first);
    rows_ = RoundUp(count, kRowsAtOnce);
    std::fill(q_.begin(), q_.end(), 0.0F);
    variant_.pack_queries(work_.q.At(batch, head, first), work_.q.token_stride, count, work_.shape.head_dim, q_.data());
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    std::fill_n(largest_, kQueries, -std::numeric_limits<float>::infinity());
    std::fill_n(weights_, kQueries, 0.0F);
    seen_ = work_.shape.causal ? work_.shape.keys - work_.shape.queries + first + 1 : work_.shape.keys + kQueries;
    const int64_t most = std::clamp(seen_ + count - 1, int64_t{0}, work_.shape.keys);
    const int64_t packed_head = member / work_.shape.group;
    for (int64_t from = 0; from < most; from += kKeys, seen_ -= kKeys) {
      keys_ = std::min(kKeys, most - from);
      const int64_t panel = from / kPanel;
      Scores(work_.scratch + packed_.Keys(packed_head, panel));
      Weigh();
      Sum(packed_head, from);
    }
    for (int64_t row = 0; row < count; ++row) {
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
  // The same of the last one of the rows that are computed at once.
  int64_t SeenByAll(int64_t row) const { return SeenBy(row / kRowsAtOnce * kRowsAtOnce + kRowsAtOnce - 1); }
  float* ScoresOf(int64_t row) { return scores_.data() + row * kRowWords; }
  float* SumOf(int64_t row) { return sums_.data() + row * packed_.width; }

  void Scores(const float* keys) {
    for (int64_t key = 0; key < keys_; key += kPanel, keys += packed_.key_panel) {
      for (int64_t row = 0; row < rows_; row += kRowsAtOnce) {
        const int64_t seen = std::min(kPanel, SeenByAll(row) - key);
        if (seen <= 0) continue;
        variant_.product({.a = q_.data() + row * packed_.depth,
                          .a_stride = packed_.depth,
                          .b = keys,
                          .b_stride = kPanel,
                          .steps = packed_.depth,
                          .c = ScoresOf(row) + key,
                          .c_stride = kRowWords,
                          .vectors = CeilDiv(seen, kVectorWords),
                          .add = false});
      }
    }
  }

  void Weigh() {
    for (int64_t row = 0; row < rows_; ++row) {
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
                      .until = until,
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
        for (int64_t row = 0; row < rows_; row += kRowsAtOnce) {
          const int64_t seen = std::min(kValues, SeenByAll(row) - key);
          if (seen <= 0) continue;
          variant_.product({.a = ScoresOf(row) + key / packed_.per_word,
                            .a_stride = kRowWords,
                            .b = values,
                            .b_stride = width,
                            .steps = CeilDiv(seen, packed_.per_word),
                            .c = SumOf(row) + column,
                            .c_stride = packed_.width,
                            .vectors = width / kVectorWords,
                            .add = true});
        }
      }
    }
  }

  const Attention<T>& work_;
  const AttentionVariant<T>& variant_;
  const PackedHeads& packed_;
  const float scale_;
  std::vector<float> q_;       // [kQueries, depth] words
  std::vector<float> scores_;  // [kQueries, kRowWords]
  std::vector<float> sums_;    // [kQueries, width]
  float largest_[kQueries];
  float weights_[kQueries];
  int64_t rows_ = 0;  // of the block, a multiple of kRowsAtOnce
  int64_t keys_ = 0;  // of the block
  int64_t seen_ = 0;  // of these, by the first row; the next one sees one more
};

// Block `i` of `blocks`, the first, the last, the second, the last but one …: under a causal mask later queries see
// more, and so every part of the order has as much work as another.
constexpr int64_t Alternating(int64_t i, int64_t blocks) { return i % 2 == 0 ? i / 2 : blocks - 1 - i / 2; }

template <typename T>
void RunAll(const Attention<T>& work, const ParallelFor& parallel_for) {
  const AttentionVariant<T>& variant = BestVariant<kVariants<T>>()();
  const PackedHeads packed = Packed(work, variant);
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

template <typename T>
int64_t FloatsOf(const Attention<T>& work) {
  return Packed(work, BestVariant<kVariants<T>>()()).Floats();
}

}  // namespace

int64_t ScratchFloats(const Attention<float>& work) { return FloatsOf(work); }
int64_t ScratchFloats(const Attention<Bf16>& work) { return FloatsOf(work); }

void Run(const Attention<float>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }
void Run(const Attention<Bf16>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }

}  // namespace roofbench::kernels
