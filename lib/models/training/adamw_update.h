// SPDX-License-Identifier: Apache-2.0
// One step of AdamW over tensors, in the ways that PyTorch has and in our own.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::models {

// The defaults are those of torch.optim.AdamW; plain SGD takes the learning rate alone.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

// Parameters with their gradients and moments, tensor by tensor of the same shapes.
struct AdamWTensors {
  std::vector<at::Tensor> parameters = {};
  std::vector<at::Tensor> gradients = {};
  std::vector<at::Tensor> means = {};
  std::vector<at::Tensor> squares = {};
};

// `step` counts from 1. Single: tensor by tensor and operation by operation, as torch.optim's loop does. Foreach:
// operation by operation over all tensors at once. Neither is for autograd.
void UpdateSingle(const AdamWTensors& tensors, double step, const OptimizerSettings& settings);
void UpdateForeach(const AdamWTensors& tensors, double step, const OptimizerSettings& settings);
// LibTorch's kernel that makes one pass over a parameter. `steps` are counts on the device, one a tensor, which it
// advances: a captured step needs them there.
void UpdateFused(const AdamWTensors& tensors, std::vector<at::Tensor>& steps, const OptimizerSettings& settings);
// Our own kernel, all tensors in one parallel loop: contiguous fp32 (c10::Error otherwise).
void UpdateNative(const AdamWTensors& tensors, int64_t step, const OptimizerSettings& settings,
                  const kernels::ParallelFor& pool);

}  // namespace roofbench::models
