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

// AdamW whose moments are ours: what updates them is the implementation's.
class MomentsAdamW : public Optimizer {
 public:
  MomentsAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings) : settings_(settings) {
    tensors_.parameters = parameters;
    for (const at::Tensor& parameter : parameters) {
      tensors_.means.push_back(at::zeros_like(parameter.detach()));
      tensors_.squares.push_back(at::zeros_like(parameter.detach()));
    }
  }
  void Step() final {
    const at::NoGradGuard no_grad;
    // Where the last backward pass left them.
    for (const at::Tensor& parameter : tensors_.parameters) {
      tensors_.gradients.push_back(parameter.grad().contiguous());
    }
    Update(tensors_, settings_);
    tensors_.gradients.clear();
  }
  double StateBytes() const final { return BytesOf(tensors_.means) + BytesOf(tensors_.squares); }
  std::optional<AdamWState> State(std::size_t index) const final {
    return AdamWState{tensors_.means.at(index), tensors_.squares.at(index), StepsOf(index)};
  }

 private:
  virtual void Update(AdamWTensors& tensors, const OptimizerSettings& settings) = 0;
  // Of a parameter, so far.
  virtual double StepsOf(std::size_t index) const = 0;

  AdamWTensors tensors_;
  const OptimizerSettings settings_;
};

// What torch.optim.AdamW is on a GPU: operation by operation over all parameters at once.
class ForeachAdamW final : public MomentsAdamW {
 public:
  using MomentsAdamW::MomentsAdamW;

 private:
  void Update(AdamWTensors& tensors, const OptimizerSettings& settings) override {
    UpdateForeach(tensors, static_cast<double>(++steps_), settings);
  }
  double StepsOf(std::size_t /*index*/) const override { return static_cast<double>(steps_); }

  int64_t steps_ = 0;
};

class FusedAdamW final : public MomentsAdamW {
 public:
  FusedAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : MomentsAdamW(parameters, settings) {
    for (const at::Tensor& parameter : parameters) {
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
  }

 private:
  void Update(AdamWTensors& tensors, const OptimizerSettings& settings) override {
    UpdateFused(tensors, steps_, settings);
  }
  double StepsOf(std::size_t index) const override { return steps_.at(index).item<double>(); }

  std::vector<at::Tensor> steps_;
};

class NativeAdamW final : public MomentsAdamW {
 public:
  NativeAdamW(const std::vector<at::Tensor>& parameters, const OptimizerSettings& settings)
      : MomentsAdamW(parameters, settings) {
    for (const at::Tensor& parameter : parameters) {
      TORCH_CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous(),
                  "our own AdamW updates contiguous fp32 parameters, not ", parameter.scalar_type());
    }
  }

 private:
  void Update(AdamWTensors& tensors, const OptimizerSettings& settings) override {
    UpdateNative(tensors, ++steps_, settings, TorchThreads());
  }
  double StepsOf(std::size_t /*index*/) const override { return static_cast<double>(steps_); }

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
  if (!parameters.front().is_cpu()) return MakeForeachAdamW(std::move(parameters), settings);
  return std::make_unique<AdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeForeachAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<ForeachAdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<FusedAdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<NativeAdamW>(parameters, settings);
}

}  // namespace roofbench::models
