// SPDX-License-Identifier: Apache-2.0
// How the work of a gradient of attention is shared by threads, and what they leave to one another in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/packed_heads.h"

namespace roofbench::kernels {

// Of a block, whose own gradients stay in the L2 while all queries pass.
inline constexpr int64_t kGradientKeys = 128;

// Into how many shares the keys of a head go: one where heads alone keep the threads busy, since each share has
// gradients of all queries of its own.
inline int64_t SharesOf(const AttentionShape& shape, int threads) {
  const int64_t heads = shape.batch * shape.heads;
  const int64_t most = std::clamp<int64_t>(CeilDiv(shape.keys, kGradientKeys), 1, threads);
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

// How q, dy and dq lie in the scratch memory.
struct GradientScratch {
  GradientScratch(const AttentionShape& shape, int64_t per_word, int threads)
      : packed(shape.batch * shape.query_heads(), shape.queries, shape.head_dim, per_word),
        shares(SharesOf(shape, threads)),
        queries(RoundUp(shape.queries, kVectorWords)),
        turned_panel(RoundUp(shape.head_dim, kRowsAtOnce) * kPanel) {}

  int64_t Upstream() const { return packed.Floats(); }  // of dy, packed as q is
  int64_t Corrections(int64_t member) const { return 2 * packed.Floats() + member * queries; }
  // dq of a share turned, a panel of queries: [head_dim, kPanel].
  int64_t Turned(int64_t share, int64_t member, int64_t panel) const {
    return Corrections(packed.heads) + ((share * packed.heads + member) * packed.panels + panel) * turned_panel;
  }
  int64_t Floats() const { return Turned(shares, 0, 0); }

  PackedHeads packed;  // of query heads
  int64_t shares;
  int64_t queries;  // of a head's corrections
  int64_t turned_panel;
};

}  // namespace roofbench::kernels
