// SPDX-License-Identifier: Apache-2.0
// The loss of a language model, alone and with the gradient of the logits, as in training.
//
// 512 tokens over 50257 classes (GPT-2; an odd number, so that rows are not aligned to cache lines) are 51 MB in bf16,
// over 128256 (Llama 3) 131 MB.

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lib/kernels/operators/rows/softmax.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/rows.h"

namespace roofbench {
namespace {

// at::Reduction::None and the index that torch ignores by default.
constexpr int64_t kNoReduction = 0;
constexpr int64_t kIgnoreIndex = -100;

struct CrossEntropy {
  at::Tensor x, target;
  at::Tensor loss, gradient;  // an undefined gradient is not computed
  at::Tensor rows;            // of the gradient that are compared
  double scale;               // of the gradient: losses are averaged over the rows
};

// The loss, and its gradient if `o` has one.
std::vector<at::Tensor> Losses(const CrossEntropy& o, const at::Tensor& x, const at::Tensor& target) {
  const at::Tensor logs = at::_log_softmax(x, 1, false);
  const auto [loss, weight] = at::nll_loss_forward(logs, target, {}, kNoReduction, kIgnoreIndex);
  if (!o.gradient.defined()) return {loss};
  const at::Tensor upstream = at::full({x.size(0)}, o.scale, x.options());
  const at::Tensor of_logs = at::nll_loss_backward(upstream, logs, target, {}, kNoReduction, kIgnoreIndex, weight);
  return {loss, at::_log_softmax_backward_data(of_logs, logs, 1, x.scalar_type())};
}

// Every loss, a block of rows at a time, and the gradient of the rows that are compared.
std::vector<at::Tensor> ExactLosses(const CrossEntropy& o) {
  constexpr int64_t kBlock = 64;
  CrossEntropy alone = o;
  alone.gradient.reset();
  std::vector<at::Tensor> losses;
  for (int64_t row = 0; row < o.x.size(0); row += kBlock) {
    const int64_t rows = std::min(kBlock, o.x.size(0) - row);
    losses.push_back(Losses(alone, o.x.narrow(0, row, rows).to(at::kDouble), o.target.narrow(0, row, rows)).front());
  }
  std::vector<at::Tensor> results = {at::cat(losses)};
  if (o.gradient.defined()) {
    results.push_back(Losses(o, o.x.index_select(0, o.rows).to(at::kDouble), o.target.index_select(0, o.rows)).back());
  }
  return results;
}

const Registration kCrossEntropy =
    FamilyOf<CrossEntropy>("cross_entropy", "loss = log(sum(exp(x))) - x[target], row by row, and its gradient")
        .Dtypes({"fp32", "bf16"}, "of logits and gradient")
        .Passes({kForward, kForwardBackward}, "forward: the loss; forward_backward: the loss and its gradient")
        .Size("rows", "", 512)
        .Size("d", "classes: the vocabulary")
        .Work([](const Point& at) {
          const workload::CrossEntropy work{at.Number("rows"), at.Number("d"), at.Dtype()};
          const bool forward = at.Text(kPassAxis) == kForward;
          workload::Cost cost = forward ? work.ForwardCost() : work.ForwardBackwardCost();
          if (at.Text(kImplAxis) == "eager") cost.resident_bytes += work.EagerScratchBytes(!forward);
          return cost;
        })
        .Operands([](const Point& at, Inputs& in) {
          const int64_t rows = at.Int("rows");
          const int64_t cols = at.Int("d");
          const bool forward = at.Text(kPassAxis) == kForward;
          return CrossEntropy{.x = in.Randn({rows, cols}, at.Dtype(), 2),
                              .target = in.Integers(0, cols, {rows}),
                              .loss = in.Empty({rows}, at::kFloat),
                              .gradient = forward ? at::Tensor() : in.Empty({rows, cols}, at.Dtype()),
                              .rows = in.SampleRows(rows, 16),
                              .scale = 1 / at.Number("rows")};
        })
        .Result([](const CrossEntropy& o) {
          std::vector<at::Tensor> results = {o.loss};
          if (o.gradient.defined()) results.push_back(o.gradient.index_select(0, o.rows));
          return results;
        })
        .Reference(ExactLosses)
        .Changing([](const CrossEntropy& o) { return o.x; })
        .Whole([](const CrossEntropy& o) {
          return o.gradient.defined() ? std::vector{o.gradient} : std::vector<at::Tensor>();
        })
        // A row of the gradient is its probabilities, which add up to 1, less 1 at its target.
        .RowSums([](const CrossEntropy& o) { return at::zeros({o.x.size(0)}, at::kDouble); })
        .Within(
            [](const Point& at) { return Tolerance{.dtype = at.Dtype(), .reduction = at.Number("d"), .roundings = 2}; })
        // ATen's losses allocate their results.
        .Impl("eager",
              [](CrossEntropy& o) {
                const std::vector<at::Tensor> results = Losses(o, o.x, o.target);
                o.loss = results.front();
                if (o.gradient.defined()) o.gradient = results.back();
              })
        .Impl("native", Cpu([]<typename T>(CrossEntropy& o) {
                return kernels::CrossEntropy<T>{.x = Elements<T>(o.x),
                                                .target = Elements<int64_t>(o.target),
                                                .loss = Elements<float>(o.loss),
                                                .gradient = o.gradient.defined() ? Elements<T>(o.gradient) : nullptr,
                                                .scale = static_cast<float>(o.scale),
                                                .rows = o.x.size(0),
                                                .cols = o.x.size(1)};
              }))
        .Points(Suite::kStandard, {{"impl", {"eager", "native"}},
                                   {"dtype", {"fp32", "bf16"}},
                                   {"pass", {kForward, kForwardBackward}},
                                   {"d", {50257}}})
        .Points(Suite::kFull, {{"impl", {"eager", "native"}},
                               {"dtype", {"fp32", "bf16"}},
                               {"pass", {kForward, kForwardBackward}},
                               {"d", {128256}}});

}  // namespace
}  // namespace roofbench
