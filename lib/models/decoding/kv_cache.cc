// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/kv_cache.h"

#include <ATen/ops/zeros.h>

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
      capacity(tokens) {}

void KvCache::FillRandom(int64_t new_length, uint64_t seed) {
  TORCH_CHECK(new_length <= capacity);
  models::FillRandom(keys, seed, 1);
  models::FillRandom(values, seed + 1, 1);
  length = new_length;
}

}  // namespace roofbench::models
