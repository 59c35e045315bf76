// SPDX-License-Identifier: Apache-2.0
// What ranks that share a model add to its forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace roofbench::models {

// Additions to the forward pass of a step that several ranks share.
class ForwardHooks {
 public:
  virtual ~ForwardHooks() = default;
  // Around each unit, a part of the model whose parameters are used together; AfterUnit takes its result.
  virtual void BeforeUnit(std::size_t /*unit*/) {}
  virtual void AfterUnit(std::size_t /*unit*/, const at::Tensor& /*y*/) {}
  // Around products whose weights the ranks divide: what all of them read, and this rank's term of a sum over them.
  virtual at::Tensor ToShards(const at::Tensor& x) { return x; }
  virtual at::Tensor FromShards(const at::Tensor& term) { return term; }
};

// Runs a unit between its hooks.
template <typename Run>
at::Tensor InUnit(ForwardHooks& hooks, std::size_t unit, Run run) {
  hooks.BeforeUnit(unit);
  at::Tensor y = run();
  hooks.AfterUnit(unit, y);
  return y;
}

// Those that do nothing.
ForwardHooks& NoHooks();

}  // namespace roofbench::models
