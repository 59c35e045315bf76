// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/attention.h"

namespace roofbench {
namespace {

constexpr int64_t kQueries = 128;  // at once, in all sequences

// The keys that the queries from `first` on do not attend to, [count or 1, keys]; undefined: none.
at::Tensor Hidden(const at::Tensor& q, int64_t keys, const std::optional<at::Tensor>& mask, bool causal, int64_t first,
                  int64_t count) {
  if (mask) return (mask->size(0) == 1 ? *mask : mask->narrow(0, first, count)).bitwise_not();
  if (!causal) return {};
  const auto positions = q.options().dtype(at::kLong);
  return at::arange(keys, positions).unsqueeze(0).gt(at::arange(first, first + count, positions).unsqueeze(1));
}

template <typename T>
kernels::HeadVectors<T> Heads(const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), x.stride(0), x.stride(1), x.stride(2)};
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
    // The queries of a group are adjacent, so that keys and values are not repeated for each of its heads.
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

at::Tensor PromptAttention::operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const kernels::ParallelFor& parallel_for) {
  const at::Tensor queries = WithWholeRows(q);
  const at::Tensor keys = WithWholeRows(k);
  const at::Tensor values = WithWholeRows(v);
  const at::Tensor y = at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
  WithElement(q, [&]<typename T>(T) {
    kernels::Attention<T> work{.shape = {.batch = q.size(0),
                                         .heads = k.size(1),
                                         .group = q.size(1) / k.size(1),
                                         .queries = q.size(2),
                                         .keys = k.size(2),
                                         .head_dim = q.size(3),
                                         .causal = true},
                               .q = Heads<const T>(queries),
                               .k = Heads<const T>(keys),
                               .v = Heads<const T>(values),
                               .y = Heads<T>(y),
                               .scale = scale_,
                               .cap = cap_};
    const int64_t floats = ScratchFloats(work);
    if (!scratch_.defined() || scratch_.numel() < floats) scratch_ = at::empty({floats}, at::kFloat);
    work.scratch = Elements<float>(scratch_);
    Run(work, parallel_for);
  });
  return y;
}

}  // namespace roofbench
