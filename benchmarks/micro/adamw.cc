// The optimizer's step: four fp32 numbers an element, three of them updated in place, so memory bandwidth is the roof.
//
// 100 M parameters are 1.6 GB, far beyond any cache, in the tensors of a small language model (12 layers of width 768
// are 85 M); 10 M are 160 MB, beyond a desktop's last level. Every step advances the step count: a count that stood
// still would be a constant to whatever records or compiles the step.

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>
#include <memory>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/adamw.h"
#include "lib/workload/adamw.h"

namespace roofbench {
namespace {

constexpr double kLr = 1e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEps = 1e-8;
constexpr double kWeightDecay = 1e-2;
constexpr int64_t kTensors = 16;

workload::AdamW WorkAt(const Point& at) { return {.parameters = at.Number("parameters")}; }

// Parameters and their state, one tensor each; step counts are tensors on the device, as a captured step needs them.
struct State {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> steps;
  double step = 0;
};

// What all implementations compute per step from the step count.
struct Corrections {
  double step_size;
  double root_of_square;
};

Corrections CorrectionsAt(double step) {
  return {kLr / (1 - std::pow(kBeta1, step)), std::sqrt(1 - std::pow(kBeta2, step))};
}

// Tensor by tensor and operation by operation, as torch.optim's loop does.
void StepSingle(State& state) {
  const Corrections corrections = CorrectionsAt(++state.step);
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    state.parameters[i].mul_(1 - kLr * kWeightDecay);
    state.means[i].lerp_(state.gradients[i], 1 - kBeta1);
    state.squares[i].mul_(kBeta2).addcmul_(state.gradients[i], state.gradients[i], 1 - kBeta2);
    const at::Tensor divisor = state.squares[i].sqrt().div_(corrections.root_of_square).add_(kEps);
    state.parameters[i].addcdiv_(state.means[i], divisor, -corrections.step_size);
  }
}

// Operation by operation over all tensors at once.
void StepForeach(State& state) {
  const Corrections corrections = CorrectionsAt(++state.step);
  at::_foreach_mul_(state.parameters, 1 - kLr * kWeightDecay);
  at::_foreach_lerp_(state.means, state.gradients, 1 - kBeta1);
  at::_foreach_mul_(state.squares, kBeta2);
  at::_foreach_addcmul_(state.squares, state.gradients, state.gradients, 1 - kBeta2);
  std::vector<at::Tensor> divisors = at::_foreach_sqrt(state.squares);
  at::_foreach_div_(divisors, corrections.root_of_square);
  at::_foreach_add_(divisors, kEps);
  at::_foreach_addcdiv_(state.parameters, state.means, divisors, -corrections.step_size);
}

void StepFused(State& state) {
  ++state.step;
  at::_foreach_add_(state.steps, 1);
  at::_fused_adamw_(state.parameters, state.gradients, state.means, state.squares, {}, state.steps, kLr, kBeta1, kBeta2,
                    kWeightDecay, kEps, /*amsgrad=*/false, /*maximize=*/false);
}

void StepNative(State& state, int threads) {
  ++state.step;
  std::vector<kernels::AdamWTensor> tensors;
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    tensors.push_back({.parameter = Elements<float>(state.parameters[i]),
                       .gradient = Elements<float>(state.gradients[i]),
                       .mean = Elements<float>(state.means[i]),
                       .square = Elements<float>(state.squares[i]),
                       .n = state.parameters[i].numel()});
  }
  Run(kernels::AdamW{.tensors = tensors,
                     .step = static_cast<int64_t>(state.step),
                     .lr = kLr,
                     .beta1 = kBeta1,
                     .beta2 = kBeta2,
                     .eps = kEps,
                     .weight_decay = kWeightDecay},
      kernels::OpenMpTeam(threads));
}

// What the last tensor was before the first step.
struct Start {
  at::Tensor parameter;
  at::Tensor mean;
  at::Tensor square;
};

std::vector<at::Tensor> Reference(const State& state, std::size_t index, const Start& start) {
  const at::Tensor gradient = state.gradients[index].to(at::kDouble);
  at::Tensor parameter = start.parameter.to(at::kDouble);
  at::Tensor mean = start.mean.to(at::kDouble);
  at::Tensor square = start.square.to(at::kDouble);
  for (double step = 1; step <= state.step; ++step) {
    const Corrections corrections = CorrectionsAt(step);
    mean = mean * kBeta1 + gradient * (1 - kBeta1);
    square = square * kBeta2 + gradient * gradient * (1 - kBeta2);
    parameter = parameter * (1 - kLr * kWeightDecay) -
                corrections.step_size * mean / (square.sqrt() / corrections.root_of_square + kEps);
  }
  return {parameter, mean, square};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const auto state = std::make_shared<State>();
  // The tensors are parts of one array of each kind, so that a cold copy is five clones.
  const int64_t parameters = at.Int("parameters");
  const at::Tensor values = in.Randn({parameters});
  const at::Tensor gradients = in.Randn({parameters});
  const at::Tensor means = in.Randn({parameters}, workload::Dtype::kFp32, 0.1);
  const at::Tensor squares = in.Randn({parameters}).square_();
  const at::Tensor steps = in.Empty({kTensors}, workload::Dtype::kFp32).zero_();
  for (int64_t i = 0; i < kTensors; ++i) {
    const int64_t begin = parameters * i / kTensors;
    const int64_t length = parameters * (i + 1) / kTensors - begin;
    state->parameters.push_back(values.narrow(0, begin, length));
    state->gradients.push_back(gradients.narrow(0, begin, length));
    state->means.push_back(means.narrow(0, begin, length));
    state->squares.push_back(squares.narrow(0, begin, length));
    state->steps.push_back(steps.select(0, i));
  }
  const std::size_t last = state->parameters.size() - 1;
  const auto start = std::make_shared<Start>(
      Start{state->parameters[last].clone(), state->means[last].clone(), state->squares[last].clone()});
  Case built{.result =
                 [=] {
                   return std::vector{state->parameters[last], state->means[last], state->squares[last]};
                 },
             .reference =
                 [=] {
                   const std::vector<at::Tensor> reference = Reference(*state, last, *start);
                   *start = {};  // needed once
                   return reference;
                 },
             .tolerance = {.roundings = 4}};
  const std::string& impl = at.Text("impl");
  if (impl == "single") built.step = [=] { StepSingle(*state); };
  if (impl == "foreach") built.step = [=] { StepForeach(*state); };
  if (impl == "fused") built.step = [=] { StepFused(*state); };
  if (impl == "native") built.step = [=, threads = in.device().threads()] { StepNative(*state, threads); };
  return built;
}

const Registration kAdamW(Family("adamw", "one step of AdamW over fp32 parameters in 16 tensors")
                              .Axis({.name = "impl",
                                     .choices = {"single", "foreach", "fused", "native"},
                                     .doc = "single, foreach, fused: as torch.optim has them; native: our own kernel"})
                              .Axis({.name = "parameters"})
                              .Grid(Suite::kStandard, {{"impl", {"single", "foreach", "fused", "native"}},
                                                       {"parameters", {"10000000", "100000000"}}})
                              .Supports(ImplementationSupports)
                              .Cost([](const Point& at) { return WorkAt(at).StepCost(); })
                              .Build(Build));

}  // namespace
}  // namespace roofbench
