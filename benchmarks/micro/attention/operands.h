// SPDX-License-Identifier: Apache-2.0
// What the families of attention share: queries, keys and values, the exact result, and the stages one by one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "lib/suite/family_of.h"
#include "lib/workload/operators/attention.h"

namespace roofbench {

struct AttentionOperands {
  at::Tensor q;        // [batch · kv_heads, group, queries, d]
  at::Tensor k, v, y;  // [batch · kv_heads, keys, d]; y as q
  at::Tensor rows;     // of y that are compared
  bool causal = false;
  at::Tensor hidden = {};  // [queries, keys], of the naive one with a mask

  double scale() const { return 1 / std::sqrt(static_cast<double>(q.size(3))); }
  // Keys that the first query sees beside the first one; below zero where it sees none.
  int64_t first_seen() const { return k.size(1) - q.size(2); }
  at::Tensor Rows() const { return y.reshape({-1, y.size(-1)}); }
};

// Product, scale and mask; softmax; product: each writes to memory what the next one reads, and each is a phase.
void NaiveAttention(AttentionOperands& o, timing::PhaseMarker& marker);

// A family with impl:naive and all but its axes, points and other implementations. `shape` is what a point computes.
FamilyOf<AttentionOperands> AttentionFamily(std::string name, std::string doc,
                                            std::function<workload::Attention(const Point&)> shape);

}  // namespace roofbench
