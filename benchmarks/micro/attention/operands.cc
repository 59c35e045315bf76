// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/operands.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

enum Phase { kScores, kSoftmax, kWeightedSum };

at::Tensor Hidden(int64_t queries, int64_t keys, const at::TensorOptions& options) {
  return at::ones({queries, keys}, options.dtype(at::kBool)).triu(keys - queries + 1);
}

AttentionOperands MakeAttention(const Point& at, const workload::Attention& shape, Inputs& in) {
  const auto heads = static_cast<int64_t>(shape.batch * shape.kv_heads);
  const auto queries = static_cast<int64_t>(shape.queries);
  const auto keys = static_cast<int64_t>(shape.keys);
  const auto dim = static_cast<int64_t>(shape.head_dim);
  const auto page = static_cast<int64_t>(shape.page);
  const bool is_int8 = shape.dtype == workload::Dtype::kInt8;
  const workload::Dtype of_rest = is_int8 ? workload::Dtype::kFp32 : shape.dtype;
  const std::vector<int64_t> of_queries = {heads, static_cast<int64_t>(shape.heads / shape.kv_heads), queries, dim};
  const auto sequences = static_cast<int64_t>(shape.batch);
  const int64_t pages = page == 0 ? 0 : (keys + page - 1) / page;
  std::vector<int64_t> of_cache = {heads, keys};
  if (page != 0) of_cache = {sequences * pages, static_cast<int64_t>(shape.kv_heads), page};
  const std::vector<int64_t> of_factors = of_cache;
  of_cache.push_back(dim);
  AttentionOperands made{.q = in.Randn(of_queries, of_rest),
                         .k = in.Randn(of_cache, shape.dtype),
                         .v = in.Randn(of_cache, shape.dtype),
                         .y = in.Empty(of_queries, of_rest),
                         .rows = in.SampleRows(heads * of_queries[1] * queries),
                         .keys = keys,
                         .causal = shape.causal};
  if (shape.causal && at.Text(kImplAxis) == "naive") made.hidden = in.Keep(Hidden(queries, keys, made.q.options()));
  if (is_int8) {
    // The integers have a deviation of 32; no factor is like another.
    const auto factors = [&] { return in.Keep(in.Randn(of_factors).abs_().add_(1).div_(64)); };
    made.k_factors = factors();
    made.v_factors = factors();
  }
  if (page != 0) {
    made.blocks = in.Keep([&](at::Generator& random) {
      return at::randperm(sequences * pages, random, at::kInt).view({sequences, pages});
    });
  }
  return made;
}

// The rows of a head from an array or from blocks.
at::Tensor RowsOf(const at::Tensor& cache, const at::Tensor& blocks, int64_t head, int64_t keys) {
  if (!blocks.defined()) return cache[head];
  const int64_t heads = cache.size(1);
  const at::Tensor own = cache.index_select(0, blocks[head / heads]).select(1, head % heads);
  return own.flatten(0, 1).narrow(0, 0, keys);
}

at::Tensor ExactRows(const AttentionOperands& o, const at::Tensor& cache, const at::Tensor& factors, int64_t head) {
  const at::Tensor rows = RowsOf(cache, o.blocks, head, o.keys).to(at::kDouble);
  return factors.defined() ? rows.mul(RowsOf(factors, o.blocks, head, o.keys).unsqueeze(-1)) : rows;
}

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

// P · (V · 1), a block of queries at a time; not computed where that would take longer than a minute.
at::Tensor RowSums(const AttentionOperands& o) {
  constexpr int64_t kBlock = 512;
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

}  // namespace

at::Tensor AttentionOperands::KeysOf(int64_t head) const { return ExactRows(*this, k, k_factors, head); }
at::Tensor AttentionOperands::ValuesOf(int64_t head) const { return ExactRows(*this, v, v_factors, head); }

void NaiveAttention(AttentionOperands& o, timing::PhaseMarker& marker) {
  observe::Range range("scores");
  const int64_t queries = o.q.size(1) * o.q.size(2);  // those of a group share their keys
  const std::vector<int64_t> square = {o.q.size(0), o.q.size(1), o.q.size(2), o.k.size(1)};
  at::Tensor scores = at::bmm(o.q.view({o.q.size(0), queries, o.q.size(3)}), o.k.transpose(1, 2)).mul_(o.scale());
  if (o.causal) scores.view(square).masked_fill_(o.hidden, -std::numeric_limits<float>::infinity());
  marker.End(kScores);
  range.Next("softmax");
  const at::Tensor probabilities = at::softmax(scores, -1);
  marker.End(kSoftmax);
  range.Next("weighted_sum");
  o.y = at::bmm(probabilities, o.v).view(o.q.sizes());
  marker.End(kWeightedSum);
}

FamilyOf<AttentionOperands> AttentionFamily(std::string name, std::string doc,
                                            std::function<workload::Attention(const Point&)> shape) {
  FamilyOf<AttentionOperands> family(std::move(name), std::move(doc));
  family
      .Work([shape](const Point& at) {
        return at.Text(kImplAxis) == "naive" ? shape(at).NaiveCost() : shape(at).FusedCost();
      })
      .Operands([shape](const Point& at, Inputs& in) { return MakeAttention(at, shape(at), in); })
      .Result([](const AttentionOperands& o) { return o.Rows().index_select(0, o.rows); })
      .Reference(ReferenceRows)
      .Whole([](const AttentionOperands& o) { return o.Rows(); })
      .RowSums(RowSums)
      // Scores and probabilities are rounded on the way.
      .Within([](const Point& at) {
        // What is rounded on the way from integers is rounded less than to bf16.
        const workload::Dtype dtype = at.Dtype() == workload::Dtype::kInt8 ? workload::Dtype::kBf16 : at.Dtype();
        // The naive one rounds scores of up to four or five before it takes powers of e of them.
        const double amplification = at.Text(kImplAxis) == "naive" ? 4 : 1;
        return Tolerance{
            .dtype = dtype, .reduction = at.Number("keys"), .roundings = 4, .amplification = amplification};
      })
      .Details([](const Point& at, const auto&, Case& built) {
        if (at.Text(kImplAxis) == "naive") built.phases = {"scores", "softmax", "weighted_sum"};
      })
      .Impl("naive", NaiveAttention);
  return family;
}

}  // namespace roofbench
