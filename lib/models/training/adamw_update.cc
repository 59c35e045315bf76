// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/adamw_update.h"

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

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/adamw.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

// What the step count makes of the settings.
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

}  // namespace roofbench::models
