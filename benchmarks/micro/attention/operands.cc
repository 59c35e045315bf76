// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/operands.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randperm.h>

#include <utility>
#include <vector>

#include "benchmarks/micro/attention/naive.h"
#include "benchmarks/micro/attention/reference.h"

namespace roofbench {
namespace {

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

// Gradients as they are compared. Of a causal mask, a query that sees n keys weighs each by about 1/n, so that its
// gradient, a sum of n such terms, and its error shrink as 1/sqrt(n); so do those of a key that begins to be seen by a
// query that sees n. Held against the size of all rows alone, first rows would be let off nothing, and last rows all.
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

// By how much more gradients in bf16 stray than results. Without it four roundings allow 8/256 of |x| + rms, and 4/256
// in the root mean square. Tried on six seeds each of 128 to 1024 causal tokens, heads of 64 and 128, and groups of 1
// to 8, elements were off by so many 256ths; the largest of all of dq, dk and dv, and in the root mean square:
//
//                                                    as they are    even rows
//   weights, their gradients and y rounded to bf16,   2 to 20        1.5 to 4.2    0.7
//     all sums in fp32, as ours are
//   LibTorch's in bf16, one head a group              3 to 10        1.4 to 4.9    1.0
//   the same, groups of 2 to 8, of which each head    4 to 25        1.9 to 11.8   1.1
//     is rounded before their sum
//
// So ours need no more room than results do, whatever the number of tokens. What heads of a group leave behind where
// large gradients cancel is twice as much, whatever their number.
double RoundingsOfGradients(const Point& at) { return at.Text(kImplAxis) == "native" ? 1 : 2; }

}  // namespace

at::Tensor AttentionOperands::KeysOf(int64_t head) const { return ExactRows(*this, k, k_factors, head); }
at::Tensor AttentionOperands::ValuesOf(int64_t head) const { return ExactRows(*this, v, v_factors, head); }

FamilyOf<AttentionOperands> AttentionFamily(std::string name, std::string doc,
                                            std::function<workload::Attention(const Point&)> shape) {
  FamilyOf<AttentionOperands> family(std::move(name), std::move(doc));
  family
      .Work([shape](const Point& at) {
        return at.Text(kImplAxis) == "naive" ? shape(at).NaiveCost() : shape(at).FusedCost();
      })
      .Operands([shape](const Point& at, Inputs& in) { return MakeAttention(at, shape(at), in); })
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
        // What is rounded on the way from integers is rounded less than to bf16.
        const workload::Dtype dtype = at.Dtype() == workload::Dtype::kInt8 ? workload::Dtype::kBf16 : at.Dtype();
        // The naive one rounds scores of up to four or five before it takes powers of e of them.
        const bool has_gradients = at.Has(kPassAxis) && at.Text(kPassAxis) != kForward;
        const std::string impl = at.Text(kImplAxis);
        const bool has_squares = impl == "naive" || impl == "compiled";
        const double amplification = has_squares ? 4 : has_gradients ? RoundingsOfGradients(at) : 1;
        return Tolerance{
            .dtype = dtype, .reduction = at.Number("keys"), .roundings = 4, .amplification = amplification};
      })
      .Details([](const Point& at, const auto&, Case& built) {
        if (at.Text(kImplAxis) == "naive") built.phases = {"scores", "softmax", "weighted_sum"};
      })
      .Impl("naive", NaiveSteps);
  return family;
}

}  // namespace roofbench
