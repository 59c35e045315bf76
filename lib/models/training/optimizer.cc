// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <utility>

#include "lib/aten/elements.h"

namespace roofbench::models {
namespace {

double BytesOf(const std::vector<at::Tensor>& tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

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
  double StateBytes() const override { return 0; }
  std::optional<AdamWState> State(std::size_t /*index*/) const override { return std::nullopt; }

 private:
  std::vector<at::Tensor> parameters_;
  const OptimizerSettings settings_;
};

class AdamW : public Optimizer {
 public:
  AdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : parameters_(parameters),
        adamw_(parameters, torch::optim::AdamWOptions(settings.learning_rate)
                               .betas({settings.beta1, settings.beta2})
                               .eps(settings.epsilon)
                               .weight_decay(settings.weight_decay)) {}
  void Step() override { adamw_.step(); }
  // The two moments, made by the first step.
  double StateBytes() const override { return adamw_.state().empty() ? 0 : 2 * BytesOf(parameters_); }
  std::optional<AdamWState> State(std::size_t index) const override {
    const auto found = adamw_.state().find(parameters_.at(index).unsafeGetTensorImpl());
    if (found == adamw_.state().end()) return std::nullopt;
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(*found->second);
    return AdamWState{state.exp_avg(), state.exp_avg_sq(), static_cast<double>(state.step())};
  }

 private:
  std::vector<at::Tensor> parameters_;
  torch::optim::AdamW adamw_;
};

// The moments of parameters, and gradients where the last backward pass left them.
AdamWTensors TensorsOf(const std::vector<at::Tensor>& parameters) {
  AdamWTensors tensors{.parameters = parameters};
  for (const at::Tensor& parameter : parameters) {
    tensors.means.push_back(at::zeros_like(parameter.detach()));
    tensors.squares.push_back(at::zeros_like(parameter.detach()));
  }
  return tensors;
}
void TakeGradients(AdamWTensors& tensors) {
  tensors.gradients.clear();
  for (const at::Tensor& parameter : tensors.parameters) tensors.gradients.push_back(parameter.grad().contiguous());
}

// What torch.optim.AdamW is on a GPU: operation by operation over all parameters at once.
class ForeachAdamW : public Optimizer {
 public:
  ForeachAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : tensors_(TensorsOf(parameters)), settings_(settings) {}
  void Step() override {
    const at::NoGradGuard no_grad;
    TakeGradients(tensors_);
    UpdateForeach(tensors_, static_cast<double>(++steps_), settings_);
    tensors_.gradients.clear();
  }
  double StateBytes() const override { return BytesOf(tensors_.means) + BytesOf(tensors_.squares); }
  std::optional<AdamWState> State(std::size_t index) const override {
    return AdamWState{tensors_.means.at(index), tensors_.squares.at(index), static_cast<double>(steps_)};
  }

 private:
  AdamWTensors tensors_;
  const OptimizerSettings settings_;
  int64_t steps_ = 0;
};

class FusedAdamW : public Optimizer {
 public:
  FusedAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : tensors_(TensorsOf(parameters)), settings_(settings) {
    for (const at::Tensor& parameter : parameters) {
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
  }
  void Step() override {
    const at::NoGradGuard no_grad;
    TakeGradients(tensors_);
    UpdateFused(tensors_, steps_, settings_);
    tensors_.gradients.clear();
  }
  double StateBytes() const override { return BytesOf(tensors_.means) + BytesOf(tensors_.squares); }
  std::optional<AdamWState> State(std::size_t index) const override {
    return AdamWState{tensors_.means.at(index), tensors_.squares.at(index), steps_.at(index).item<double>()};
  }

 private:
  AdamWTensors tensors_;
  const OptimizerSettings settings_;
  std::vector<at::Tensor> steps_;
};

class NativeAdamW : public Optimizer {
 public:
  NativeAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : tensors_(TensorsOf(parameters)), settings_(settings) {
    for (const at::Tensor& parameter : parameters) {
      TORCH_CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous(),
                  "our own AdamW updates contiguous fp32 parameters, not ", parameter.scalar_type());
    }
  }
  void Step() override {
    TakeGradients(tensors_);
    UpdateNative(tensors_, ++steps_, settings_, TorchThreads());
    tensors_.gradients.clear();
  }
  double StateBytes() const override { return BytesOf(tensors_.means) + BytesOf(tensors_.squares); }
  std::optional<AdamWState> State(std::size_t index) const override {
    return AdamWState{tensors_.means.at(index), tensors_.squares.at(index), static_cast<double>(steps_)};
  }

 private:
  AdamWTensors tensors_;
  const OptimizerSettings settings_;
  int64_t steps_ = 0;
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
  if (!parameters.front().is_cpu()) return std::make_unique<ForeachAdamW>(parameters, settings);
  return std::make_unique<AdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<FusedAdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<NativeAdamW>(parameters, settings);
}

}  // namespace roofbench::models
