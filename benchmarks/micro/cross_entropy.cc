// The loss at the end of a language model, alone and with the gradient of the logits, as a training step wants it.
//
// 512 tokens over 50257 classes (GPT-2; an odd number, as rows come that are on no cache line) are 51 MB in bf16, over
// 128256 (Llama 3) 131 MB.

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>

#include <memory>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/cross_entropy.h"
#include "lib/workload/cross_entropy.h"

namespace roofbench {
namespace {

// at::Reduction::None and the index that torch ignores by default.
constexpr int64_t kNoReduction = 0;
constexpr int64_t kIgnoreIndex = -100;

workload::CrossEntropy WorkAt(const Point& at) {
  return {.rows = at.Number("rows"), .cols = at.Number("d"), .dtype = at.Dtype()};
}

bool WithGradient(const Point& at) { return at.Text("pass") == "both"; }

struct Results {
  at::Tensor loss;
  at::Tensor gradient;  // undefined: not wanted
};

Results Losses(const at::Tensor& x, const at::Tensor& target, bool with_gradient, double scale) {
  const at::Tensor logs = at::_log_softmax(x, 1, false);
  const auto [loss, weight] = at::nll_loss_forward(logs, target, {}, kNoReduction, kIgnoreIndex);
  if (!with_gradient) return {loss, {}};
  const at::Tensor upstream = at::full({x.size(0)}, scale, x.options());
  const at::Tensor of_logs = at::nll_loss_backward(upstream, logs, target, {}, kNoReduction, kIgnoreIndex, weight);
  return {loss, at::_log_softmax_backward_data(of_logs, logs, 1, x.scalar_type())};
}

std::vector<at::Tensor> Sampled(const Results& results, const at::Tensor& rows) {
  std::vector<at::Tensor> sampled = {results.loss.index_select(0, rows)};
  if (results.gradient.defined()) sampled.push_back(results.gradient.index_select(0, rows));
  return sampled;
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t cols = at.Int("d");
  const bool with_gradient = WithGradient(at);
  // Losses are averaged over the rows.
  const double scale = 1 / at.Number("rows");
  const at::Tensor x = in.Randn({rows, cols}, at.Dtype(), 2);
  const at::Tensor target = in.Integers(0, cols, {rows});
  const at::Tensor sampled = in.SampleRows(rows, 16);
  const auto results = std::make_shared<Results>();
  results->loss = in.Empty({rows}, workload::Dtype::kFp32);
  if (with_gradient) results->gradient = in.Empty({rows, cols}, at.Dtype());
  Case built{.result = [=] { return Sampled(*results, sampled); },
             .reference =
                 [=] {
                   const Results exact = Losses(x.index_select(0, sampled).to(at::kDouble),
                                                target.index_select(0, sampled), with_gradient, scale);
                   std::vector<at::Tensor> reference = {exact.loss};
                   if (with_gradient) reference.push_back(exact.gradient);
                   return reference;
                 },
             .tolerance = {.dtype = at.Dtype(), .reduction = at.Number("d"), .roundings = 2}};
  if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return [step = NativeStep(
                  kernels::CrossEntropy<T>{.x = Elements<T>(x),
                                           .target = Elements<int64_t>(target),
                                           .loss = Elements<float>(results->loss),
                                           .gradient = with_gradient ? Elements<T>(results->gradient) : nullptr,
                                           .scale = static_cast<float>(scale),
                                           .rows = rows,
                                           .cols = cols},
                  in.device()),
              x, target, results] { step(); };
    });
  } else {
    // ATen's losses allocate their results.
    built.step = [=] { *results = Losses(x, target, with_gradient, scale); };
  }
  return built;
}

const Registration kCrossEntropy(
    Family("cross_entropy", "loss = log(sum(exp(x))) - x[target], row by row, and its gradient")
        .Axis({.name = "impl", .choices = {"eager", "native"}, .doc = "eager: LibTorch; native: our own kernel"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}, .doc = "of logits and gradient"})
        .Axis({.name = "pass",
               .choices = {"forward", "both"},
               .default_value = "forward",
               .doc = "forward: the loss; both: the loss and its gradient"})
        .Axis({.name = "rows", .default_value = "512"})
        .Axis({.name = "d", .doc = "classes: the vocabulary"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"dtype", {"fp32", "bf16"}},
                                 {"pass", {"forward", "both"}},
                                 {"d", {"50257"}}})
        .Grid(Suite::kFull, {{"impl", {"eager", "native"}},
                             {"dtype", {"fp32", "bf16"}},
                             {"pass", {"forward", "both"}},
                             {"d", {"128256"}}})
        .Supports(ImplementationSupports)
        .Cost([](const Point& at) {
          return WithGradient(at) ? WorkAt(at).ForwardBackwardCost() : WorkAt(at).ForwardCost();
        })
        .Build(Build));

}  // namespace
}  // namespace roofbench
