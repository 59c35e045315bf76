// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/operands.h"

#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

// impl:naive, as in a textbook: each stage writes to memory what the next one reads.

enum Phase { kScores, kSoftmax, kWeightedSum };

// [batch · kv_heads, group · queries, d]: those of a group share their keys.
at::Tensor Folded(const at::Tensor& x) { return x.view({x.size(0), x.size(1) * x.size(2), x.size(3)}); }

at::Tensor Scores(const AttentionOperands& o) {
  at::Tensor scores = at::bmm(Folded(o.q), o.k.transpose(1, 2)).mul_(o.scale());
  const std::vector<int64_t> square = {o.q.size(0), o.q.size(1), o.q.size(2), o.k.size(1)};
  if (o.causal) scores.view(square).masked_fill_(o.hidden, -std::numeric_limits<float>::infinity());
  return scores;
}

at::Tensor Forward(AttentionOperands& o, timing::PhaseMarker& marker) {
  observe::Range range("scores");
  const at::Tensor scores = Scores(o);
  marker.End(kScores);
  range.Next("softmax");
  at::Tensor weights = at::softmax(scores, -1);
  marker.End(kSoftmax);
  range.Next("weighted_sum");
  o.y = at::bmm(weights, o.v).view(o.q.sizes());
  marker.End(kWeightedSum);
  return weights;
}

// Masked keys have a weight of zero, and no gradient.
void Backward(AttentionOperands& o, const at::Tensor& weights, timing::PhaseMarker& marker) {
  observe::Range range("weighted_sum");
  const at::Tensor dy = Folded(o.dy);
  o.dv = at::bmm(weights.transpose(1, 2), dy);
  at::Tensor gradients = at::bmm(dy, o.v.transpose(1, 2));  // of weights
  marker.End(kWeightedSum);
  range.Next("softmax");
  gradients = at::_softmax_backward_data(gradients, weights, -1, weights.scalar_type());
  marker.End(kSoftmax);
  range.Next("scores");
  gradients.mul_(o.scale());
  o.dq = at::bmm(gradients, o.k).view(o.q.sizes());
  o.dk = at::bmm(gradients.transpose(1, 2), Folded(o.q));
  marker.End(kScores);
}

// The passes of the point: product, scale and mask; softmax; product. Each is a phase. Backward has the same phases in
// reverse order.
void NaiveSteps(AttentionOperands& o, timing::PhaseMarker& marker) {
  const at::Tensor weights = o.has_forward ? Forward(o, marker) : o.weights;
  if (o.has_backward()) Backward(o, weights, marker);
}

// The state that a forward pass leaves for a backward pass.
at::Tensor NaiveWeights(const AttentionOperands& o) { return at::softmax(Scores(o), -1); }

// The reference in double precision, by the formulas.

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

// The sampled rows of y.
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

// The sum of each row of y, P · (V · 1), a block of queries at a time; undefined if it would take more than a minute.
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

// The gradients of q, k and v. 4 Gi scores take a minute; few sizes of a suite have as many.
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
  if (at.Has(kPassAxis) && at.Text(kPassAxis) != kForward) {
    made.dy = in.Randn(of_queries, of_rest);
    made.has_forward = at.Text(kPassAxis) == kForwardBackward;
    if (at.Text(kImplAxis) == "naive" && !made.has_forward) made.weights = in.Keep(NaiveWeights(made));
  }
  if (is_int8) {
    // The integers have a deviation of 32; all factors differ.
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

// The rows of a head, from an array or from blocks.
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

// Scales gradients for comparison. With a causal mask, a query that sees n keys weighs each by about 1/n, so its
// gradient, a sum of n such terms, and its error shrink as 1/sqrt(n); the same holds for a key that is first seen by a
// query that sees n. Relative to the size of all rows alone, the tolerance would be too tight for first rows and too
// loose for last rows.
at::Tensor EvenRows(const AttentionOperands& o, const at::Tensor& gradient, bool of_queries) {
  if (!o.causal) return gradient;
  const at::TensorOptions options = gradient.options().dtype(at::promoteTypes(gradient.scalar_type(), at::kFloat));
  const at::Tensor rows = at::arange(gradient.size(-2), options);
  return gradient * (of_queries ? rows + o.first_seen() : rows.clamp_min(o.first_seen())).add(1).sqrt().unsqueeze(-1);
}

// Appends the gradients of q, k and v.
void AppendEven(const AttentionOperands& o, const std::vector<at::Tensor>& gradients, std::vector<at::Tensor>& to) {
  for (std::size_t i = 0; i < gradients.size(); ++i) to.push_back(EvenRows(o, gradients[i], i == 0));
}

// The factor by which gradients in bf16 deviate more than results. Without it, four roundings allow 8/256 of |x| + rms,
// and 4/256 in the root mean square. On six seeds each of 128 to 1024 causal tokens, heads of 64 and 128, and groups of
// 1 to 8, elements deviated by so many 256ths; the largest of dq, dk and dv, and in the root mean square:
//
//                                                    as they are    even rows
//   weights, their gradients and y rounded to bf16,   2 to 20        1.5 to 4.2    0.7
//     all sums in fp32, as ours are
//   LibTorch's in bf16, one head a group              3 to 10        1.4 to 4.9    1.0
//   the same, groups of 2 to 8, of which each head    4 to 25        1.9 to 11.8   1.1
//     is rounded before their sum
//
// So ours need the tolerance of results, for any number of tokens. The cancellation of large gradients between the
// heads of a group doubles the error, for any number of heads.
double RoundingsOfGradients(const Point& at) { return at.Text(kImplAxis) == "native" ? 1 : 2; }

}  // namespace

at::Tensor AttentionOperands::KeysOf(int64_t head) const { return ExactRows(*this, k, k_factors, head); }
at::Tensor AttentionOperands::ValuesOf(int64_t head) const { return ExactRows(*this, v, v_factors, head); }

workload::Attention ShapeOfHeads(const Point& at) {
  return {.batch = at.Number("batch"),
          .heads = at.Number("heads"),
          .kv_heads = at.Number("kv_heads"),
          .keys = at.Number("keys"),
          .head_dim = at.Number("d"),
          .dtype = at.Dtype()};
}

absl::Status SupportsHeads(const Point& at) {
  if (at.Int("heads") % at.Int("kv_heads") == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("heads must be a multiple of kv_heads, as each of these serves as many of those");
}

GridAxes Grid(const AxisList& impls, const AxisList& dtypes, GridAxes sizes) {
  sizes.insert(sizes.end(), {{"impl", impls}, {"dtype", dtypes}});
  return sizes;
}
GridAxes Gpt2(const AxisList& keys, const AxisList& batch) {
  return {{"batch", batch}, {"heads", {12}}, {"d", {64}}, {"keys", keys}};
}
GridAxes Llama3(const AxisList& keys, const AxisList& batch) {
  return {{"batch", batch}, {"heads", {32}}, {"kv_heads", {8}}, {"d", {128}}, {"keys", keys}};
}

FamilyOf<AttentionOperands> AttentionFamily(std::string name, std::string doc,
                                            std::function<workload::Attention(const Point&)> shape) {
  FamilyOf<AttentionOperands> family(std::move(name), std::move(doc));
  family.Operands([shape](const Point& at, Inputs& in) { return MakeAttention(at, shape(at), in); })
      .Result([](const AttentionOperands& o) {
        std::vector<at::Tensor> results;
        if (o.has_forward) results.push_back(o.Rows().index_select(0, o.rows));
        if (o.has_backward()) AppendEven(o, {o.dq, o.dk, o.dv}, results);
        return results;
      })
      .Reference([](const AttentionOperands& o) {
        std::vector<at::Tensor> references;
        if (o.has_forward) references.push_back(ReferenceRows(o));
        if (o.has_backward()) AppendEven(o, ReferenceGradients(o), references);
        return references;
      })
      // Gradients are compared as a whole.
      .Whole(
          [](const AttentionOperands& o) { return o.has_forward ? std::vector{o.Rows()} : std::vector<at::Tensor>(); })
      .RowSums([](const AttentionOperands& o) {
        return o.has_forward ? std::vector{ReferenceRowSums(o)} : std::vector<at::Tensor>();
      })
      // Scores and probabilities are rounded on the way.
      .Within([](const Point& at) {
        // Intermediate results of int8 are rounded less than bf16.
        const workload::Dtype dtype = at.Dtype() == workload::Dtype::kInt8 ? workload::Dtype::kBf16 : at.Dtype();
        // impl:naive rounds scores of up to four or five before it exponentiates them.
        const bool has_gradients = at.Has(kPassAxis) && at.Text(kPassAxis) != kForward;
        const std::string impl = at.Text(kImplAxis);
        const bool has_squares = impl == "naive" || impl == "compiled";
        const double amplification = has_squares ? 4 : has_gradients ? RoundingsOfGradients(at) : 1;
        return Tolerance{
            .dtype = dtype, .reduction = at.Number("keys"), .roundings = 4, .amplification = amplification};
      })
      .Details([](const Point& at, const auto& o, Case& built) {
        if (at.Text(kImplAxis) == "naive") built.phases = {"scores", "softmax", "weighted_sum"};
        built.autograd = at.Text(kImplAxis) == "sdpa" && o->has_backward();
      })
      .Impl("naive", NaiveSteps);
  return family;
}

}  // namespace roofbench
