// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <utility>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/adamw.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

// The bias corrections of a step.
struct Corrections {
  Corrections(double step, const OptimizerSettings& settings)
      : step_size(settings.learning_rate / (1 - std::pow(settings.beta1, step))),
        root_of_square(std::sqrt(1 - std::pow(settings.beta2, step))) {}
  double step_size;
  double root_of_square;
};

}  // namespace

void UpdateSingle(const AdamWTensors& tensors, double step, const OptimizerSettings& settings) {
  const Corrections corrections(step, settings);
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const at::Tensor& gradient = tensors.gradients[i];
    tensors.parameters[i].mul_(1 - settings.learning_rate * settings.weight_decay);
    tensors.means[i].lerp_(gradient, 1 - settings.beta1);
    tensors.squares[i].mul_(settings.beta2).addcmul_(gradient, gradient, 1 - settings.beta2);
    const at::Tensor divisor = tensors.squares[i].sqrt().div_(corrections.root_of_square).add_(settings.epsilon);
    tensors.parameters[i].addcdiv_(tensors.means[i], divisor, -corrections.step_size);
  }
}

void UpdateForeach(const AdamWTensors& tensors, double step, const OptimizerSettings& settings) {
  const Corrections corrections(step, settings);
  at::_foreach_mul_(tensors.parameters, 1 - settings.learning_rate * settings.weight_decay);
  at::_foreach_lerp_(tensors.means, tensors.gradients, 1 - settings.beta1);
  at::_foreach_mul_(tensors.squares, settings.beta2);
  at::_foreach_addcmul_(tensors.squares, tensors.gradients, tensors.gradients, 1 - settings.beta2);
  std::vector<at::Tensor> divisors = at::_foreach_sqrt(tensors.squares);
  at::_foreach_div_(divisors, corrections.root_of_square);
  at::_foreach_add_(divisors, settings.epsilon);
  at::_foreach_addcdiv_(tensors.parameters, tensors.means, divisors, -corrections.step_size);
}

void UpdateFused(const AdamWTensors& tensors, std::vector<at::Tensor>& steps, const OptimizerSettings& settings) {
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(tensors.parameters, tensors.gradients, tensors.means, tensors.squares, {}, steps,
                    settings.learning_rate, settings.beta1, settings.beta2, settings.weight_decay, settings.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void UpdateNative(const AdamWTensors& tensors, int64_t step, const OptimizerSettings& settings,
                  const kernels::ParallelFor& pool) {
  std::vector<kernels::AdamWTensor> pointers;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    pointers.push_back({.parameter = Elements<float>(tensors.parameters[i]),
                        .gradient = Elements<float>(tensors.gradients[i]),
                        .mean = Elements<float>(tensors.means[i]),
                        .square = Elements<float>(tensors.squares[i]),
                        .n = tensors.parameters[i].numel()});
  }
  const observe::Range kernel("roofbench::adamw");
  Run(kernels::AdamW{.tensors = pointers,
                     .step = step,
                     .lr = settings.learning_rate,
                     .beta1 = settings.beta1,
                     .beta2 = settings.beta2,
                     .eps = settings.epsilon,
                     .weight_decay = settings.weight_decay},
      pool);
}

namespace {

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<at::Tensor> parameters, const OptimizerSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {}
  void Step() override {
    const at::NoGradGuard no_grad;
    if (parameters_.front().is_cpu()) {
      for (at::Tensor& parameter : parameters_) parameter.add_(parameter.grad(), -settings_.learning_rate);
      return;
    }
    // As torch.optim does on a GPU.
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_add_(parameters_, gradients, -settings_.learning_rate);
  }
  std::vector<at::Tensor> State() const override { return {}; }

 private:
  std::vector<at::Tensor> parameters_;
  const OptimizerSettings settings_;
};

class AdamW : public Optimizer {
 public:
  AdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : adamw_(parameters, torch::optim::AdamWOptions(settings.learning_rate)
                               .betas({settings.beta1, settings.beta2})
                               .eps(settings.epsilon)
                               .weight_decay(settings.weight_decay)) {}
  void Step() override { adamw_.step(); }
  std::vector<at::Tensor> State() const override {
    std::vector<at::Tensor> moments;
    for (const auto& [parameter, state] : adamw_.state()) {
      const auto& of_parameter = static_cast<const torch::optim::AdamWParamState&>(*state);
      moments.insert(moments.end(), {of_parameter.exp_avg(), of_parameter.exp_avg_sq()});
    }
    return moments;
  }

 private:
  torch::optim::AdamW adamw_;
};

// AdamW on moments of our own, updated by one of the functions above.
class MomentsAdamW final : public Optimizer {
 public:
  enum class Update { kForeach, kFused, kNative };

  MomentsAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings, Update update)
      : settings_(settings), update_(update) {
    tensors_.parameters = parameters;
    for (const at::Tensor& parameter : parameters) {
      TORCH_CHECK(update != Update::kNative || (parameter.scalar_type() == at::kFloat && parameter.is_contiguous()),
                  "our own AdamW updates contiguous fp32 parameters, not ", parameter.scalar_type());
      tensors_.means.push_back(at::zeros_like(parameter.detach()));
      tensors_.squares.push_back(at::zeros_like(parameter.detach()));
      if (update != Update::kFused) continue;
      device_steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
  }

  void Step() override {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : tensors_.parameters) {
      tensors_.gradients.push_back(parameter.grad().contiguous());
    }
    ++steps_;
    switch (update_) {
      case Update::kForeach:
        UpdateForeach(tensors_, static_cast<double>(steps_), settings_);
        break;
      case Update::kFused:
        UpdateFused(tensors_, device_steps_, settings_);
        break;
      case Update::kNative:
        UpdateNative(tensors_, steps_, settings_, TorchThreads());
    }
    tensors_.gradients.clear();
  }
  std::vector<at::Tensor> State() const override {
    std::vector<at::Tensor> state = tensors_.means;
    state.insert(state.end(), tensors_.squares.begin(), tensors_.squares.end());
    state.insert(state.end(), device_steps_.begin(), device_steps_.end());
    return state;
  }

 private:
  const OptimizerSettings settings_;
  const Update update_;
  AdamWTensors tensors_;
  int64_t steps_ = 0;
  std::vector<at::Tensor> device_steps_;  // of kFused: a replayed graph advances them
};

}  // namespace

std::optional<AdamWState> FreshState(const at::Tensor& parameter) {
  const at::Tensor zeros = at::zeros_like(parameter.detach());
  return AdamWState{zeros, zeros, 0};
}

at::Tensor UpdateByFormula(const at::Tensor& parameter, const at::Tensor& gradient, const OptimizerSettings& settings,
                           std::optional<AdamWState>& state) {
  const at::NoGradGuard no_grad;
  at::Tensor p = parameter.detach().to(at::kDouble);
  const at::Tensor g = gradient.to(at::kDouble);
  if (!state) return p.sub(g, settings.learning_rate);
  const double steps = state->steps + 1;
  const at::Tensor m = state->first_moment.to(at::kDouble).mul(settings.beta1).add(g, 1 - settings.beta1);
  const at::Tensor v = state->second_moment.to(at::kDouble).mul(settings.beta2).add(g.square(), 1 - settings.beta2);
  const at::Tensor root = v.div(1 - std::pow(settings.beta2, steps)).sqrt().add(settings.epsilon);
  p = p.mul(1 - settings.learning_rate * settings.weight_decay)
          .sub(m.div(1 - std::pow(settings.beta1, steps)).div(root), settings.learning_rate);
  state = AdamWState{m, v, steps};
  return p;
}

std::unique_ptr<Optimizer> MakeSgd(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(std::move(parameters), settings);
}
std::unique_ptr<Optimizer> MakeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  if (!parameters.front().is_cpu()) return MakeForeachAdamW(std::move(parameters), settings);
  return std::make_unique<AdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeForeachAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<MomentsAdamW>(parameters, settings, MomentsAdamW::Update::kForeach);
}
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<MomentsAdamW>(parameters, settings, MomentsAdamW::Update::kFused);
}
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<MomentsAdamW>(parameters, settings, MomentsAdamW::Update::kNative);
}

}  // namespace roofbench::models
