// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/naive.h"

#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/softmax.h>

#include <limits>
#include <vector>

#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

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

// What the mask hides has the weight zero, and so no gradient.
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

}  // namespace

void NaiveSteps(AttentionOperands& o, timing::PhaseMarker& marker) {
  const at::Tensor weights = o.has_forward ? Forward(o, marker) : o.weights;
  if (o.has_backward()) Backward(o, weights, marker);
}

at::Tensor NaiveWeights(const AttentionOperands& o) { return at::softmax(Scores(o), -1); }

}  // namespace roofbench
