// SPDX-License-Identifier: Apache-2.0
// Keys and values of the tokens that a decoder has read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// On the device and in the type of `options`. One allocation for `capacity` tokens: [layers, batch, kv_heads, capacity,
// head_dim], so that a head's keys lie side by side.
struct KvCache {
  KvCache(const workload::Transformer& shape, int64_t batch, int64_t capacity, const at::TensorOptions& options);

  at::Tensor keys;
  at::Tensor values;
  int64_t capacity;
  int64_t length = 0;

  void FillRandom(int64_t new_length, uint64_t seed);
};

}  // namespace roofbench::models
