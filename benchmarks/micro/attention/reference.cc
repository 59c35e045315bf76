// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/reference.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace roofbench {
namespace {

constexpr int64_t kBlock = 512;  // queries

// The probabilities of some queries of a head, in double precision.
at::Tensor Probabilities(const AttentionOperands& o, int64_t head, int64_t member, int64_t first, int64_t count) {
  const at::Tensor q = o.q[head][member].narrow(0, first, count).to(at::kDouble);
  at::Tensor scores = at::matmul(q, o.KeysOf(head).t()).mul_(o.scale());
  if (o.causal) {
    scores.masked_fill_(at::ones_like(scores, at::kBool).triu(o.first_seen() + first + 1),
                        -std::numeric_limits<double>::infinity());
  }
  return at::softmax(scores, -1);
}

}  // namespace

at::Tensor ReferenceRows(const AttentionOperands& o) {
  const int64_t queries = o.q.size(2);
  const at::Tensor rows = o.rows.cpu();
  std::vector<at::Tensor> results;
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t row = rows.const_data_ptr<int64_t>()[i];
    const int64_t head = row / queries / o.q.size(1);
    const at::Tensor weights = Probabilities(o, head, row / queries % o.q.size(1), row % queries, 1);
    results.push_back(at::matmul(weights, o.ValuesOf(head)));
  }
  return at::cat(results);
}

// P · (V · 1), a block of queries at a time.
at::Tensor ReferenceRowSums(const AttentionOperands& o) {
  constexpr int64_t kMost = 1_Gi;
  if (o.q.numel() / o.q.size(3) > kMost / o.keys) return {};
  std::vector<at::Tensor> sums;
  for (int64_t head = 0; head < o.q.size(0); ++head) {
    const at::Tensor of_values = o.ValuesOf(head).sum(1);
    for (int64_t member = 0; member < o.q.size(1); ++member) {
      for (int64_t first = 0; first < o.q.size(2); first += kBlock) {
        const int64_t count = std::min(kBlock, o.q.size(2) - first);
        sums.push_back(at::matmul(Probabilities(o, head, member, first, count), of_values));
      }
    }
  }
  return at::cat(sums);
}

std::vector<at::Tensor> ReferenceGradients(const AttentionOperands& o) {
  const at::TensorOptions exact = o.q.options().dtype(at::kDouble);
  const at::Tensor dq = at::empty(o.q.sizes(), exact);
  const at::Tensor dk = at::zeros(o.k.sizes(), exact);
  const at::Tensor dv = at::zeros(o.v.sizes(), exact);
  for (int64_t head = 0; head < o.q.size(0); ++head) {
    const at::Tensor keys = o.KeysOf(head);
    const at::Tensor values = o.ValuesOf(head).t();
    for (int64_t member = 0; member < o.q.size(1); ++member) {
      for (int64_t first = 0; first < o.q.size(2); first += kBlock) {
        const int64_t count = std::min(kBlock, o.q.size(2) - first);
        const auto block = [&](const at::Tensor& x) { return x[head][member].narrow(0, first, count); };
        const at::Tensor p = Probabilities(o, head, member, first, count);
        const at::Tensor dy = block(o.dy).to(at::kDouble);
        at::Tensor ds = at::matmul(dy, values);
        ds = ds.sub_((ds * p).sum(1, true)).mul_(p).mul_(o.scale());
        block(dq).copy_(at::matmul(ds, keys));
        dk[head].addmm_(ds.t(), block(o.q).to(at::kDouble));
        dv[head].addmm_(p.t(), dy);
      }
    }
  }
  return {dq, dk, dv};
}

}  // namespace roofbench
