// SPDX-License-Identifier: Apache-2.0
// Bindings that define the step of an implementation, and how each becomes a step. FamilyOf<Operands>::Impl takes one
// or two: a callable for every device, or one for processors and one for GPUs.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/aten/elements.h"
#include "lib/cases/point.h"
#include "lib/device/device.h"
#include "lib/suite/inputs.h"
#include "lib/suite/steps/compiled.h"
#include "lib/suite/steps/gpu_step.h"

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
  std::function<absl::Status(const Point&)> supports = {};
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

// The step of an implementation for one kind of device and pass, independent of its binding. O: the family's operands,
// which the case owns and passes to every step by reference.
template <typename O>
struct BoundStep {
  std::function<absl::StatusOr<CaseStep>(const Point&, const std::shared_ptr<O>&, Inputs&)> make;
  bool on_cpu = true;
  bool on_gpu = true;
  std::vector<std::string_view> kernels = {};
  // Checks points on a GPU.
  std::function<absl::Status(const Point&, const Device&)> gpu_supports = {};
  std::string pass = {};  // empty: all passes
};

// A step that runs a kernel (a struct with a function Run) on the device's threads.
template <typename Work>
auto KernelStep(Work work, const Device& device) {
  return [work = std::move(work), threads = device.threads()] { Run(work, kernels::ThreadPool(threads)); };
}

// Wraps a callable as a step that holds the operands: it may take the operands, the marker, both or neither.
template <typename O, typename Step>
CaseStep StepOn(const std::shared_ptr<O>& operands, Step step) {
  if constexpr (std::invocable<Step&, O&, timing::PhaseMarker&>) {
    return [step = std::move(step), operands](timing::PhaseMarker& marker) mutable { step(*operands, marker); };
  } else if constexpr (std::invocable<Step&, O&>) {
    return [step = std::move(step), operands](timing::PhaseMarker&) mutable { step(*operands); };
  } else if constexpr (std::invocable<Step&, timing::PhaseMarker&>) {
    return [step = std::move(step), operands](timing::PhaseMarker& marker) mutable { step(marker); };
  } else {
    return [step = std::move(step), operands](timing::PhaseMarker&) mutable { step(); };
  }
}

template <typename O, typename Step>
BoundStep<O> Bind(Step step) {
  return {[step = std::move(step)](const Point&, const std::shared_ptr<O>& operands, Inputs&) {
    return StepOn(operands, step);
  }};
}

template <typename O, typename Make>
BoundStep<O> Bind(CpuKernel<Make> kernel) {
  return {.make =
              [make = kernel.make](const Point& at, const std::shared_ptr<O>& operands, Inputs& in) {
                return WithDtype(at.Dtype(), [&]<typename T>(T) {
                  return StepOn(operands, KernelStep(make.template operator()<T>(*operands), in.device()));
                });
              },
          .on_gpu = false};
}

template <typename O, typename Launch>
BoundStep<O> Bind(CudaKernel<Launch> kernel) {
  return {.make =
              [launch = kernel.launch](const Point&, const std::shared_ptr<O>& operands, Inputs& in) {
                return CaseStep([operands, launch, launcher = GpuLauncher(in.device())] {
                  launcher(
                      [&](const kernels::GpuKernels& table, void* stream) { return launch(table, *operands, stream); });
                });
              },
          .on_cpu = false,
          .kernels = {kernel.kernel},
          .gpu_supports =
              [supports = kernel.supports](const Point& at, const Device& device) {
                const absl::Status status = supports ? supports(at) : absl::OkStatus();
                return status.ok() ? GpuKernelsSupport(device) : status;
              }};
}

template <typename O, typename Prepare>
BoundStep<O> Bind(PreparedStep<Prepare> prepared) {
  BoundStep<O> bound{.make = [prepare = prepared.prepare](const Point& at, const std::shared_ptr<O>& operands,
                                                          Inputs& in) -> absl::StatusOr<CaseStep> {
                       if constexpr (!std::invocable<const Prepare&, O&, const Point&, Inputs&>) {
                         return StepOn(operands, prepare);
                       } else {
                         auto step = prepare(*operands, at, in);
                         if constexpr (requires { step.status(); }) {
                           if (!step.ok()) return step.status();
                           return StepOn(operands, *std::move(step));
                         } else {
                           return StepOn(operands, std::move(step));
                         }
                       }
                     },
                     .on_cpu = prepared.on_cpu,
                     .on_gpu = prepared.on_gpu,
                     .kernels = prepared.kernels};
  if (!bound.kernels.empty()) {
    bound.gpu_supports = [](const Point&, const Device& device) { return GpuKernelsSupport(device); };
  }
  return bound;
}

template <typename O, typename Operation, typename Tensors>
BoundStep<O> Bind(CompiledStep<Operation, Tensors> compiled) {
  const auto make = [compiled](const Point&, const std::shared_ptr<O>& operands,
                               Inputs& in) -> absl::StatusOr<CaseStep> {
    const std::vector<at::Tensor> tensors = compiled.tensors(*operands);
    std::string name;
    if constexpr (std::invocable<const Operation&, O&>) {
      name = compiled.operation(*operands);
    } else {
      name = compiled.operation;
    }
    auto operation = CompilePart(name, tensors, in);
    if (!operation.ok()) return operation.status();
    return StepOn(operands, [tensors, run = *std::move(operation)](O& o) { o.y = run(tensors); });
  };
  return {.make = make, .kernels = {kInductorPackage}};
}

template <typename O, typename Binding>
BoundStep<O> Bind(PassStep<Binding> one) {
  BoundStep<O> bound = Bind<O>(std::move(one.binding));
  bound.pass = std::move(one.pass);
  return bound;
}

}  // namespace roofbench
