// SPDX-License-Identifier: Apache-2.0
// Optimizers over a model's parameters, and single steps of AdamW over tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::models {

// Defaults as in torch.optim.AdamW; SGD uses only the learning rate.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

// Parameters, gradients and moments: vectors of tensors of the same shapes.
struct AdamWTensors {
  std::vector<at::Tensor> parameters = {};
  std::vector<at::Tensor> gradients = {};
  std::vector<at::Tensor> means = {};
  std::vector<at::Tensor> squares = {};
};

// `step` counts from 1. Single: one operation for each tensor, like torch.optim's loop. Foreach: one operation for all
// tensors. Both need gradients to be disabled.
void UpdateSingle(const AdamWTensors& tensors, double step, const OptimizerSettings& settings);
void UpdateForeach(const AdamWTensors& tensors, double step, const OptimizerSettings& settings);
// LibTorch's kernel, one pass over a parameter. It advances `steps`, a count for each tensor on the device, as a
// captured step needs it.
void UpdateFused(const AdamWTensors& tensors, std::vector<at::Tensor>& steps, const OptimizerSettings& settings);
// Our kernel, all tensors in one parallel loop. They must be contiguous fp32 (c10::Error otherwise).
void UpdateNative(const AdamWTensors& tensors, int64_t step, const OptimizerSettings& settings,
                  const kernels::ParallelFor& pool);

// AdamW's state of one parameter.
struct AdamWState {
  at::Tensor first_moment;
  at::Tensor second_moment;
  double steps = 0;
};

// The state before the first step: zeros.
std::optional<AdamWState> FreshState(const at::Tensor& parameter);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates the parameters from their gradients.
  virtual void Step() = 0;
  // Its state between steps: moments, and counts of steps on the device. Empty before the first step, if that makes
  // them.
  virtual std::vector<at::Tensor> State() const = 0;
};

// One update of `parameter` by the formula in double precision, for tests and checks. Updates `state` (nullopt: SGD).
at::Tensor UpdateByFormula(const at::Tensor& parameter, const at::Tensor& gradient, const OptimizerSettings& settings,
                           std::optional<AdamWState>& state);

using MakeOptimizer = std::unique_ptr<Optimizer> (*)(std::vector<at::Tensor>, const OptimizerSettings&);

// sgd: p -= lr · g. adamw: torch::optim::AdamW, parameter by parameter; on a GPU the foreach form, as in PyTorch.
// adamw_foreach, adamw_fused and native: see the Update functions above.
std::unique_ptr<Optimizer> MakeSgd(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeForeachAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);

}  // namespace roofbench::models
