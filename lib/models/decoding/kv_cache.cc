// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/kv_cache.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lib/models/decoding/random_fill.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

at::Tensor Allocate(const workload::Transformer& shape, int64_t batch, int64_t capacity,
                    const at::TensorOptions& options) {
  const observe::Range range(observe::kKvCacheRange);
  // Zeros touch every page now and not in a timed token.
  return at::zeros({static_cast<int64_t>(shape.layers), batch, static_cast<int64_t>(shape.KvHeads()), capacity,
                    static_cast<int64_t>(shape.HeadDim())},
                   options);
}

}  // namespace

KvCache::KvCache(const workload::Transformer& shape, int64_t batch, int64_t tokens, const at::TensorOptions& options)
    : keys(Allocate(shape, batch, tokens, options)),
      values(Allocate(shape, batch, tokens, options)),
      capacity(tokens),
      lengths(static_cast<std::size_t>(batch)) {}

int64_t KvCache::length() const {
  const int64_t first = lengths.front();
  TORCH_CHECK(std::ranges::all_of(lengths, [&](int64_t length) { return length == first; }),
              "the sequences have lengths of their own");
  return first;
}

void KvCache::SetLength(int64_t length) { std::ranges::fill(lengths, length); }

void KvCache::CheckRoom(int64_t before, int64_t tokens) const {
  TORCH_CHECK(before + tokens <= capacity, "the cache holds ", capacity, " tokens");
}

void KvCache::Check(const std::vector<Piece>& pieces, int64_t tokens) const {
  int64_t last = -1;
  int64_t sum = 0;
  for (const auto& [sequence, own] : pieces) {
    TORCH_CHECK(sequence > last && sequence < static_cast<int64_t>(lengths.size()),
                "pieces must be of different sequences, in ascending order");
    TORCH_CHECK(own > 0, "a piece has at least one token");
    CheckRoom(lengths[static_cast<std::size_t>(sequence)], own);
    last = sequence;
    sum += own;
  }
  TORCH_CHECK(!pieces.empty() && sum == tokens, "the pieces have ", sum, " tokens, and ", tokens, " are given");
}

void KvCache::FillRandom(int64_t new_length, uint64_t seed) {
  TORCH_CHECK(new_length <= capacity);
  models::FillRandom(keys, seed, 1);
  models::FillRandom(values, seed + 1, 1);
  SetLength(new_length);
}

}  // namespace roofbench::models
