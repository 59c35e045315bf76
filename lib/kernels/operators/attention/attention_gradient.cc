// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/kernels/operators/attention/attention_variant.h"

namespace roofbench::kernels {
namespace {

// Keys of a block, whose own gradients stay in the L2 while all queries pass.
constexpr int64_t kKeys = 128;

// The number of shares that the keys of a head are split into: one where heads alone keep the threads busy, since each
// share holds its own gradients of all queries.
int64_t SharesOf(const AttentionShape& shape, int threads) {
  const int64_t heads = shape.batch * shape.heads;
  const int64_t most = std::clamp<int64_t>(CeilDiv(shape.keys, kKeys), 1, threads);
  const auto idle = [&](int64_t shares) {
    return static_cast<double>(CeilDiv(heads * shares, threads) * threads) / static_cast<double>(heads * shares);
  };
  constexpr double kTolerable = 1.1;
  int64_t best = 1;
  for (int64_t shares = 1; shares <= most && idle(best) > kTolerable; ++shares) {
    if (idle(shares) < idle(best)) best = shares;
  }
  return best;
}

// The layout of q, dy and dq in the scratch memory.
struct GradientScratch {
  template <typename T>
  GradientScratch(const AttentionVariant<T>& variant, const AttentionShape& shape, int threads)
      : packed(variant, shape.batch * shape.query_heads(), shape.queries, shape.head_dim),
        shares(SharesOf(shape, threads)),
        queries(RoundUp(shape.queries, kVectorWords)),
        turned_panel(RoundUp(shape.head_dim, variant.rows_at_once) * kPanel) {}

  int64_t Upstream() const { return packed.Floats(); }  // of dy, packed as q is
  int64_t Corrections(int64_t member) const { return 2 * packed.Floats() + member * queries; }
  // dq of a share, transposed, by panels of queries: [head_dim, kPanel].
  int64_t Turned(int64_t share, int64_t member, int64_t panel) const {
    return Corrections(packed.heads) + ((share * packed.heads + member) * packed.panels + panel) * turned_panel;
  }
  int64_t Floats() const { return Turned(shares, 0, 0); }

  PackedHeads packed;  // of query heads
  int64_t shares;
  int64_t queries;  // of a head's corrections
  int64_t turned_panel;
};

constexpr int64_t kQueries = 128;  // of a block: scores, products and ds of both stay in the L2
// The stride of a row of scores: a power of two would put all rows on the same sets of a cache.
constexpr int64_t kRowWords = kQueries + kVectorWords;

// Prepares panel `panel` of a query head; runs before all other steps.
template <typename T>
void Prepare(const AttentionGradient<T>& work, const AttentionVariant<T>& variant, const GradientScratch& scratch,
             int64_t member, int64_t panel) {
  const AttentionShape& shape = work.shape;
  const int64_t heads = shape.query_heads();
  const auto pack = [&](const HeadVectors<const T>& from, float* to) {
    PackPanel(variant, scratch.packed, member, panel, shape.queries, shape.head_dim, from, from, heads, to);
  };
  pack(work.q, work.scratch);
  pack(work.dy, work.scratch + scratch.Upstream());
  const int64_t end = std::min((panel + 1) * kPanel, shape.queries);
  for (int64_t query = panel * kPanel; query < end; ++query) {
    work.scratch[scratch.Corrections(member) + query] =
        variant.dot(work.dy.At(member / heads, member % heads, query), work.y.At(member / heads, member % heads, query),
                    shape.head_dim);
  }
  for (int64_t share = 0; share < scratch.shares; ++share) {
    std::fill_n(work.scratch + scratch.Turned(share, member, panel), scratch.turned_panel, 0.0F);
  }
}

// Blocks of keys, on one thread.
template <typename T>
class KeyBlocks {
 public:
  KeyBlocks(const AttentionGradient<T>& work, const AttentionVariant<T>& variant, const GradientScratch& scratch)
      : work_(work),
        shape_(work.shape),
        variant_(variant),
        scratch_(scratch),
        packed_(scratch.packed),
        at_once_(variant.rows_at_once),
        products_on_thread_(variant),
        scale_(1 / std::sqrt(static_cast<float>(work.shape.head_dim))),
        turned_words_(kKeys / packed_.per_word),
        k_(Words(kKeys * packed_.depth)),
        v_(Words(kKeys * packed_.depth)),
        turned_k_(Words(RoundUp(work.shape.head_dim, at_once_) * turned_words_)),
        scores_(Words(kKeys * kRowWords)),
        products_(Words(kKeys * kRowWords)),
        pairs_(Words(packed_.per_word == 1 ? 0 : turned_words_ * kRowWords)),
        dk_(Words(kKeys * packed_.width)),
        dv_(Words(kKeys * packed_.width)) {}

  // Computes key head `head`, counted over the batch, for a block of keys from `first` on; adds dq to that of `share`.
  void Run(int64_t head, int64_t first, int64_t share) {
    const int64_t batch = head / shape_.heads;
    const int64_t of_batch = head % shape_.heads;
    first_key_ = first;
    keys_ = std::min(kKeys, shape_.keys - first);
    rows_ = RoundUp(keys_, at_once_);
    PackKeys(batch, of_batch);
    std::fill(dk_.begin(), dk_.end(), 0.0F);
    std::fill(dv_.begin(), dv_.end(), 0.0F);
    for (int64_t member = head * shape_.group; member < (head + 1) * shape_.group; ++member) {
      const int64_t unseen = shape_.causal ? std::max<int64_t>(0, first - (shape_.keys - shape_.queries)) : 0;
      for (first_query_ = unseen / kPanel * kPanel; first_query_ < shape_.queries; first_query_ += kQueries) {
        queries_ = std::min(kQueries, shape_.queries - first_query_);
        Block(member, share);
      }
    }
    for (int64_t row = 0; row < keys_; ++row) {
      variant_.finish(dk_.data() + row * packed_.width, scale_, shape_.head_dim,
                      work_.dk.At(batch, of_batch, first + row));
      variant_.finish(dv_.data() + row * packed_.width, 1, shape_.head_dim, work_.dv.At(batch, of_batch, first + row));
    }
  }

 private:
  static std::vector<float> Words(int64_t n) { return std::vector<float>(static_cast<std::size_t>(n)); }

  // The first query of the block that sees the key of a row; `queries_` if none does.
  int64_t FirstSeeing(int64_t row) const {
    if (row >= keys_) return queries_;
    if (!shape_.causal) return 0;
    return std::clamp<int64_t>(first_key_ + row - (shape_.keys - shape_.queries) - first_query_, 0, queries_);
  }

  void PackKeys(int64_t batch, int64_t head) {
    std::fill(k_.begin(), k_.end(), 0.0F);
    std::fill(v_.begin(), v_.end(), 0.0F);
    const T* const k = work_.k.At(batch, head, first_key_);
    variant_.pack_queries(k, work_.k.token_stride, keys_, shape_.head_dim, packed_.depth, k_.data());
    variant_.pack_queries(work_.v.At(batch, head, first_key_), work_.v.token_stride, keys_, shape_.head_dim,
                          packed_.depth, v_.data());
    // As values, and transposed: a word of row i has element i of one or two keys.
    float words[kPanel * kPanel];
    for (int64_t key = 0; key < keys_; key += kPanel) {
      for (int64_t column = 0; column < shape_.head_dim; column += kPanel) {
        const int64_t columns = std::min(kPanel, shape_.head_dim - column);
        variant_.pack_values(k + key * work_.k.token_stride + column, work_.k.token_stride,
                             std::min(kPanel, keys_ - key), columns, words);
        const int64_t width = RoundUp(columns, kVectorWords);
        float* const to = turned_k_.data() + column * turned_words_ + key / packed_.per_word;
        for (int64_t i = 0; i < columns; ++i) {
          for (int64_t word = 0; word < kPanel / packed_.per_word; ++word) {
            to[i * turned_words_ + word] = words[word * width + i];
          }
        }
      }
    }
  }

  // Adds the contributions of this block of queries.
  void Block(int64_t member, int64_t share) {
    const float* const q = work_.scratch;
    const float* const dy = work_.scratch + scratch_.Upstream();
    OfPairs(k_, q, member, scores_);
    OfPairs(v_, dy, member, products_);
    Weigh(member);
    OfKeys(scores_, dy, member, dv_);
    OfKeys(products_, q, member, dk_);
    OfQueries(member, share);
  }

  // to[key][query] = row `key` of `left` · vector `query` of those packed at `right`.
  void OfPairs(const std::vector<float>& left, const float* right, int64_t member, std::vector<float>& to) {
    for (int64_t query = 0; query < queries_; query += kPanel) {
      const float* const panel = right + packed_.Keys(member, (first_query_ + query) / kPanel);
      for (int64_t row = 0; row < rows_; row += at_once_) {
        const int64_t skipped = std::max<int64_t>(0, FirstSeeing(row) - query) / kVectorWords * kVectorWords;
        const int64_t seen = std::min(kPanel, queries_ - query) - skipped;
        if (seen <= 0) continue;
        variant_.product({.a = {left.data() + row * packed_.depth, packed_.depth},
                          .b = {panel + skipped, kPanel},
                          .steps = packed_.depth,
                          .c = {to.data() + row * kRowWords + query + skipped, kRowWords},
                          .vectors = CeilDiv(seen, kVectorWords),
                          .add = false});
      }
    }
  }

  void Weigh(int64_t member) {
    const float* const logs = work_.log_sum_exp + member * shape_.queries + first_query_;
    const float* const corrections = work_.scratch + scratch_.Corrections(member) + first_query_;
    for (int64_t row = 0; row < rows_; row += packed_.per_word) {
      float* const products = products_.data() + row * kRowWords;
      // The query from which the products of these rows begin.
      const int64_t begin = FirstSeeing(row & -at_once_) / kPanel * kPanel;
      variant_.weigh_gradient(
          {.scores = scores_.data() + row * kRowWords,
           .products = products,
           .stride = kRowWords,
           .pairs = packed_.per_word == 1 ? products : pairs_.data() + row / packed_.per_word * kRowWords,
           .begin = begin,
           .until = RoundUp(queries_, kPanel),
           .first = {FirstSeeing(row), FirstSeeing(row + 1)},
           .end = queries_,
           .scale = scale_,
           .log_sum_exp = logs,
           .corrections = corrections});
    }
  }

  // sums[key] += Σ weights[key][query] · vector `query` of those packed at `right`.
  void OfKeys(const std::vector<float>& weights, const float* right, int64_t member, std::vector<float>& sums) {
    for (int64_t column = 0; column < packed_.width; column += kPanel) {
      const int64_t width = std::min(kPanel, packed_.width - column);
      for (int64_t row = 0; row < rows_; row += at_once_) {
        // A product reads as many weights as it takes at once: aligned ones, all of which are written.
        const int64_t first = FirstSeeing(row) / packed_.per_word & -variant_.steps_at_once;
        const int64_t steps = CeilDiv(queries_, packed_.per_word) - first;
        if (steps <= 0) continue;
        variant_.product({.a = {weights.data() + row * kRowWords + first, kRowWords},
                          .b = {right + packed_.Values(member, column, first_query_) + first * width, width},
                          .steps = steps,
                          .c = {sums.data() + row * packed_.width + column, packed_.width},
                          .vectors = width / kVectorWords,
                          .add = true});
      }
    }
  }

  // dq of a panel, transposed, += (transposed k) · ds.
  void OfQueries(int64_t member, int64_t share) {
    const float* const ds = packed_.per_word == 1 ? products_.data() : pairs_.data();
    for (int64_t query = 0; query < queries_; query += kPanel) {
      const int64_t seen = KeysSeenBy(std::min(query + kPanel, queries_) - 1);
      if (seen == 0) continue;
      float* const sums = work_.scratch + scratch_.Turned(share, member, (first_query_ + query) / kPanel);
      for (int64_t i = 0; i < shape_.head_dim; i += at_once_) {
        variant_.product({.a = {turned_k_.data() + i * turned_words_, turned_words_},
                          .b = {ds + query, kRowWords},
                          .steps = CeilDiv(seen, packed_.per_word),
                          .c = {sums + i * kPanel, kPanel},
                          .vectors = CeilDiv(std::min(kPanel, queries_ - query), kVectorWords),
                          .add = true});
      }
    }
  }

  // Keys of the block that a query of the block sees.
  int64_t KeysSeenBy(int64_t query) const {
    if (!shape_.causal) return keys_;
    return std::clamp<int64_t>(first_query_ + query + shape_.keys - shape_.queries + 1 - first_key_, 0, keys_);
  }

  const AttentionGradient<T>& work_;
  const AttentionShape& shape_;
  const AttentionVariant<T>& variant_;
  const GradientScratch& scratch_;
  const PackedHeads& packed_;
  const int64_t at_once_;  // rows, a power of two
  const ProductsOnThread<T> products_on_thread_;
  const float scale_;
  const int64_t turned_words_;   // of a row of turned_k_
  std::vector<float> k_;         // [kKeys, depth] words
  std::vector<float> v_;         // likewise
  std::vector<float> turned_k_;  // [head_dim, turned_words_] words
  std::vector<float> scores_;    // [kKeys, kRowWords]; then the weights
  std::vector<float> products_;  // likewise, then ds
  std::vector<float> pairs_;     // [turned_words_, kRowWords]: ds, a word has two keys; empty where it has one
  std::vector<float> dk_;        // [kKeys, width]
  std::vector<float> dv_;
  int64_t first_key_ = 0;
  int64_t keys_ = 0;  // of the block
  int64_t rows_ = 0;  // of the block, a multiple of those at once
  int64_t first_query_ = 0;
  int64_t queries_ = 0;  // of the block
};

// Sums dq of a panel over all shares.
template <typename T>
void Finish(const AttentionGradient<T>& work, const AttentionVariant<T>& variant, const GradientScratch& scratch,
            int64_t member, int64_t panel, std::vector<float>& rows) {
  const AttentionShape& shape = work.shape;
  const int64_t width = scratch.packed.width;
  std::fill(rows.begin(), rows.end(), 0.0F);
  for (int64_t share = 0; share < scratch.shares; ++share) {
    const float* const turned = work.scratch + scratch.Turned(share, member, panel);
    for (int64_t i = 0; i < shape.head_dim; ++i) {
      for (int64_t query = 0; query < kPanel; ++query) {
        rows[static_cast<std::size_t>(query * width + i)] += turned[i * kPanel + query];
      }
    }
  }
  const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  const int64_t first = panel * kPanel;
  for (int64_t query = 0; query < std::min(kPanel, shape.queries - first); ++query) {
    variant.finish(rows.data() + query * width, scale, shape.head_dim,
                   work.dq.At(member / shape.query_heads(), member % shape.query_heads(), first + query));
  }
}

}  // namespace

template <typename T>
int64_t ScratchFloatsWith(const AttentionVariant<T>& variant, const AttentionGradient<T>& work, int threads) {
  return GradientScratch(variant, work.shape, threads).Floats();
}

template <typename T>
void RunWith(const AttentionVariant<T>& variant, const AttentionGradient<T>& work, const ParallelFor& parallel_for) {
  const GradientScratch scratch(variant, work.shape, parallel_for.threads());
  const int64_t panels = scratch.packed.panels;
  parallel_for(scratch.packed.heads * panels, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) Prepare(work, variant, scratch, i / panels, i % panels);
  });
  parallel_for(work.shape.batch * work.shape.heads * scratch.shares, [&](Range range) {
    KeyBlocks<T> blocks(work, variant, scratch);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t share = i % scratch.shares;
      // Interleaved, since under a causal mask more queries see the earlier keys.
      for (int64_t first = share * kKeys; first < work.shape.keys; first += scratch.shares * kKeys) {
        blocks.Run(i / scratch.shares, first, share);
      }
    }
  });
  parallel_for(scratch.packed.heads * panels, [&](Range range) {
    std::vector<float> rows(static_cast<std::size_t>(kPanel * scratch.packed.width));
    for (int64_t i = range.begin; i < range.end; ++i) {
      Finish(work, variant, scratch, i / panels, i % panels, rows);
    }
  });
}

template int64_t ScratchFloatsWith(const AttentionVariant<float>& variant, const AttentionGradient<float>& work,
                                   int threads);
template int64_t ScratchFloatsWith(const AttentionVariant<Bf16>& variant, const AttentionGradient<Bf16>& work,
                                   int threads);
template void RunWith(const AttentionVariant<float>& variant, const AttentionGradient<float>& work,
                      const ParallelFor& parallel_for);
template void RunWith(const AttentionVariant<Bf16>& variant, const AttentionGradient<Bf16>& work,
                      const ParallelFor& parallel_for);

int64_t ScratchFloats(const AttentionGradient<float>& work, int threads) {
  return ScratchFloatsWith(BestAttentionVariant<float>(), work, threads);
}
int64_t ScratchFloats(const AttentionGradient<Bf16>& work, int threads) {
  return ScratchFloatsWith(BestAttentionVariant<Bf16>(), work, threads);
}

void Run(const AttentionGradient<float>& work, const ParallelFor& parallel_for) {
  RunWith(BestAttentionVariant<float>(), work, parallel_for);
}
void Run(const AttentionGradient<Bf16>& work, const ParallelFor& parallel_for) {
  RunWith(BestAttentionVariant<Bf16>(), work, parallel_for);
}

}  // namespace roofbench::kernels
