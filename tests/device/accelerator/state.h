// SPDX-License-Identifier: Apache-2.0
// State that the accelerator's files share.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <vector>

#include "tests/device/accelerator/accelerator.h"

namespace roofbench::accelerator {

// An operator of LibTorch's, or a kernel.
struct RecordedOperator {
  std::optional<c10::OperatorHandle> op = {};
  torch::jit::Stack arguments = {};
  torch::jit::Stack results = {};
  std::function<void()> kernel = {};
};

struct State {
  Counts counts = {};
  std::function<void()> launch = {};
  std::function<void()> wait = {};
  std::vector<RecordedOperator>* recorded = nullptr;  // while it records
};
State& TheState();

inline bool IsOnDevice(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// The same memory as a tensor of the CPU, and the CPU's as a tensor of the device.
at::Tensor OnHost(const at::Tensor& tensor);
at::Tensor OnDevice(const at::Tensor& tensor);

// The host waits for the device, for the reason `what`. Throws while the device records.
void Synchronize(const std::string& what);

// Any operator, on the processor.
void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Throws where CUDA would refuse these arguments; `name` is "aten::mm", say.
void CheckRules(const std::string& name, const torch::jit::Stack& arguments);

}  // namespace roofbench::accelerator
