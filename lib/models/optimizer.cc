#include "lib/models/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <utility>

#include "lib/kernels/adamw.h"
#include "lib/models/elements.h"

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
    for (at::Tensor& parameter : parameters_) parameter.add_(parameter.grad(), -settings_.learning_rate);
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

class FusedAdamW : public Optimizer {
 public:
  FusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const at::Tensor& parameter : parameters_) {
      first_moments_.push_back(at::zeros_like(parameter.detach()));
      second_moments_.push_back(at::zeros_like(parameter.detach()));
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
  }
  void Step() override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    gradients.reserve(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      gradients.push_back(parameters_[i].grad());
      steps_[i].add_(1);
    }
    at::_fused_adamw_(parameters_, gradients, first_moments_, second_moments_, {}, steps_, settings_.learning_rate,
                      settings_.beta1, settings_.beta2, settings_.weight_decay, settings_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
  double StateBytes() const override { return BytesOf(first_moments_) + BytesOf(second_moments_); }
  std::optional<AdamWState> State(std::size_t index) const override {
    return AdamWState{first_moments_.at(index), second_moments_.at(index), steps_.at(index).item<double>()};
  }

 private:
  std::vector<at::Tensor> parameters_;
  const OptimizerSettings settings_;
  std::vector<at::Tensor> first_moments_;
  std::vector<at::Tensor> second_moments_;
  std::vector<at::Tensor> steps_;
};

// One pass over each tensor by our own kernel, all tensors in one parallel loop.
class NativeAdamW : public Optimizer {
 public:
  NativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const at::Tensor& parameter : parameters_) {
      TORCH_CHECK(parameter.scalar_type() == at::kFloat && parameter.is_contiguous(),
                  "our own AdamW updates contiguous fp32 parameters, not ", parameter.scalar_type());
      means_.push_back(at::zeros_like(parameter.detach()));
      squares_.push_back(at::zeros_like(parameter.detach()));
    }
  }
  void Step() override {
    std::vector<at::Tensor> gradients;  // keeps copies of such as are not contiguous
    std::vector<kernels::AdamWTensor> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      gradients.push_back(parameters_[i].grad().contiguous());
      tensors.push_back({.parameter = Elements<float>(parameters_[i]),
                         .gradient = Elements<float>(gradients[i]),
                         .mean = Elements<float>(means_[i]),
                         .square = Elements<float>(squares_[i]),
                         .n = parameters_[i].numel()});
    }
    Run(kernels::AdamW{.tensors = tensors,
                       .step = ++steps_,
                       .lr = settings_.learning_rate,
                       .beta1 = settings_.beta1,
                       .beta2 = settings_.beta2,
                       .eps = settings_.epsilon,
                       .weight_decay = settings_.weight_decay},
        Team());
  }
  double StateBytes() const override { return BytesOf(means_) + BytesOf(squares_); }
  std::optional<AdamWState> State(std::size_t index) const override {
    return AdamWState{means_.at(index), squares_.at(index), static_cast<double>(steps_)};
  }

 private:
  std::vector<at::Tensor> parameters_;
  const OptimizerSettings settings_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> squares_;
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
  return std::make_unique<AdamW>(parameters, settings);
}
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<FusedAdamW>(std::move(parameters), settings);
}
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings) {
  return std::make_unique<NativeAdamW>(std::move(parameters), settings);
}

}  // namespace roofbench::models
