// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/capped_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace roofbench {
namespace {

constexpr int64_t kQueries = 128;  // of all sequences at once

// Which of `keys` keys the queries from `first` on do not attend to, [count or 1, keys]; undefined: to all.
at::Tensor Hidden(const at::Tensor& q, int64_t keys, const std::optional<at::Tensor>& mask, bool causal, int64_t first,
                  int64_t count) {
  if (mask) return (mask->size(0) == 1 ? *mask : mask->narrow(0, first, count)).bitwise_not();
  if (!causal) return {};
  const auto positions = q.options().dtype(at::kLong);
  return at::arange(keys, positions).unsqueeze(0).gt(at::arange(first, first + count, positions).unsqueeze(1));
}

}  // namespace

at::Tensor CappedAttention::operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const std::optional<at::Tensor>& mask, bool causal) const {
  const int64_t batch = q.size(0);
  const int64_t heads = k.size(1);
  const int64_t group = q.size(1) / heads;
  const int64_t keys = k.size(2);
  const int64_t dim = q.size(3);
  const int64_t most = std::max<int64_t>(1, kQueries / batch);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < q.size(2); first += most) {
    const int64_t count = std::min(most, q.size(2) - first);
    // The queries of a group side by side, so that keys and values are not repeated for each of its heads.
    const at::Tensor queries = q.narrow(2, first, count).reshape({batch, heads, group * count, dim});
    at::Tensor scores = at::matmul(queries, k.transpose(2, 3)).to(at::kFloat).view({batch, heads, group, count, keys});
    scores.mul_(scale / cap).tanh_().mul_(cap);
    const at::Tensor hidden = Hidden(q, keys, mask, causal, first, count);
    if (hidden.defined()) scores.masked_fill_(hidden, -std::numeric_limits<float>::infinity());
    const at::Tensor weights = at::softmax(scores, -1).to(v.scalar_type()).view({batch, heads, group * count, keys});
    parts.push_back(at::matmul(weights, v).view({batch, heads * group, count, dim}));
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts, 2);
}

}  // namespace roofbench
