// SPDX-License-Identifier: Apache-2.0
// Optimizers over a model's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "lib/models/training/adamw_update.h"

namespace roofbench::models {

// What AdamW remembers of one parameter.
struct AdamWState {
  at::Tensor first_moment;
  at::Tensor second_moment;
  double steps = 0;
};

// Before the first step: zeros.
std::optional<AdamWState> FreshState(const at::Tensor& parameter);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates the parameters from their gradients.
  virtual void Step() = 0;
  // Bytes of the state that lives from step to step.
  virtual double StateBytes() const = 0;
  // The state of parameter `index`, or nullopt for one that has none (SGD; AdamW before its first step).
  virtual std::optional<AdamWState> State(std::size_t index) const = 0;
};

// One update of `parameter` by its formula in double precision: for tests and checks. `state` is what held before the
// update (nullopt: SGD), and becomes what holds after it.
at::Tensor UpdateByFormula(const at::Tensor& parameter, const at::Tensor& gradient, const OptimizerSettings& settings,
                           std::optional<AdamWState>& state);

using MakeOptimizer = std::unique_ptr<Optimizer> (*)(std::vector<at::Tensor>, const OptimizerSettings&);

// sgd: p -= lr · g. adamw: torch::optim::AdamW, one operation after another for each parameter; on a GPU over all of
// them at once, as PyTorch does both there. adamw_foreach: over all at once on any device. adamw_fused: LibTorch's
// kernel that makes one pass over a parameter. Native: our own one, for fp32 parameters (c10::Error otherwise).
std::unique_ptr<Optimizer> MakeSgd(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeForeachAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeFusedAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> MakeNativeAdamW(std::vector<at::Tensor> parameters, const OptimizerSettings& settings);

}  // namespace roofbench::models
