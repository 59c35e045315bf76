// SPDX-License-Identifier: Apache-2.0
// Bindings that define the step of an implementation. Family<Operands>::Impl takes one or two: a callable for every
// device, or one for processors and one for GPUs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/suite/point.h"

namespace roofbench {

// Our own kernel for processors: `make.operator()<T>(operands)` returns a kernel's struct for elements of type T (float
// or kernels::Bf16, by the axis dtype), whose function Run executes on the device's threads.
template <typename Make>
struct CpuKernel {
  Make make;
};
template <typename Make>
CpuKernel<Make> Cpu(Make make) {
  return {std::move(make)};
}

// Our own kernel for GPUs: `launch(table, operands, stream)` enqueues it and returns CUDA's error (0: none). `kernel`
// is its __global__ name. `supports`, if given, decides which points it accepts.
template <typename Launch>
struct CudaKernel {
  std::string_view kernel;
  Launch launch;
  std::function<absl::Status(const Point&)> supports;
};
template <typename Launch>
CudaKernel<Launch> Cuda(std::string_view kernel, Launch launch,
                        std::function<absl::Status(const Point&)> supports = {}) {
  return {kernel, std::move(launch), std::move(supports)};
}

// A step that needs preparation, once per case and untimed: `prepare(operands, point, inputs)` returns the step, or an
// absl::StatusOr of it. OnCpu: only for processors; OnGpu: only for GPUs; both also accept a step without preparation.
template <typename Prepare>
struct PreparedStep {
  Prepare prepare;
  bool on_cpu = true;
  bool on_gpu = true;
  std::vector<std::string_view> kernels = {};  // ours that the step launches
};
template <typename Prepare>
PreparedStep<Prepare> Prepared(Prepare prepare) {
  return {std::move(prepare)};
}
template <typename Prepare>
PreparedStep<Prepare> OnCpu(Prepare prepare) {
  return {std::move(prepare), true, false};
}
template <typename Prepare>
PreparedStep<Prepare> OnGpu(std::vector<std::string_view> kernels, Prepare prepare) {
  return {std::move(prepare), false, true, std::move(kernels)};
}

// Compiled by LibTorch's Inductor, for the device: `inputs(operands)` are the arguments of the operation in
// tools/compile_package.py; its result becomes operands.y. `operation` is its name, or a function of the operands that
// returns the name.
template <typename Operation, typename Tensors>
struct CompiledStep {
  Operation operation;
  Tensors tensors;
};
template <typename Operation, typename Tensors>
CompiledStep<Operation, Tensors> Compiled(Operation operation, Tensors tensors) {
  return {std::move(operation), std::move(tensors)};
}

// Restricts a binding to one pass: a value of the axis `pass`.
template <typename Binding>
struct PassStep {
  std::string pass;
  Binding binding;
};
template <typename Binding>
PassStep<Binding> InPass(std::string pass, Binding binding) {
  return {std::move(pass), std::move(binding)};
}

}  // namespace roofbench
