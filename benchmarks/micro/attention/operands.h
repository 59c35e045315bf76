// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of the attention families, their exact result, and impl:naive.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "lib/suite/family_of.h"
#include "lib/workload/operators/attention.h"

namespace roofbench {

inline constexpr char kMaskAxis[] = "mask";
inline constexpr char kCausal[] = "causal";

struct AttentionOperands {
  at::Tensor q;        // [batch · kv_heads, group, queries, d]
  at::Tensor k, v, y;  // [batch · kv_heads, keys, d], or blocks [blocks, kv_heads, page, d]; y as q
  at::Tensor rows;     // of y that are compared
  int64_t keys = 0;
  bool causal = false;
  at::Tensor hidden = {};                     // [queries, keys], of the naive one with a mask
  at::Tensor k_factors = {}, v_factors = {};  // of an int8 cache: as k and v without d
  at::Tensor blocks = {};                     // [batch, blocks of a sequence]: which of them, as int32
  // In passes with gradients: that of y, and the resulting ones of q, k and v.
  at::Tensor dy = {}, dq = {}, dk = {}, dv = {};
  at::Tensor weights = {};  // [batch · kv_heads, group · queries, keys], of the naive one's backward pass alone
  bool has_forward = true;  // a step computes y

  bool has_backward() const { return dy.defined(); }

  double scale() const { return 1 / std::sqrt(static_cast<double>(q.size(3))); }
  // Keys that the first query sees after the first key; below zero if it sees none.
  int64_t first_seen() const { return keys - q.size(2); }
  at::Tensor Rows() const { return y.reshape({-1, y.size(-1)}); }
  // [keys, d] of a head, in double precision.
  at::Tensor KeysOf(int64_t head) const;
  at::Tensor ValuesOf(int64_t head) const;
};

// The computation of a point by the axes batch, heads, kv_heads, keys, d and dtype.
workload::Attention ShapeOfHeads(const Point& at);
absl::Status SupportsHeads(const Point& at);

// Points with the heads of GPT-2 small or of Llama-3-8B.
inline const AxisList kImpls = {"naive", "sdpa", "native"};
GridAxes Grid(const AxisList& impls, const AxisList& dtypes, GridAxes sizes);
GridAxes Gpt2(const AxisList& keys, const AxisList& batch = {1});
GridAxes Llama3(const AxisList& keys, const AxisList& batch = {1});

// A family with impl:naive, but without axes, work, points and other implementations. `shape`: the computation of a
// point.
FamilyOf<AttentionOperands> AttentionFamily(std::string name, std::string doc,
                                            std::function<workload::Attention(const Point&)> shape);

}  // namespace roofbench
