// SPDX-License-Identifier: Apache-2.0
// The step of an implementation for one kind of device and pass, independent of its binding (bindings.h).
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
#include "lib/suite/inputs.h"
#include "lib/suite/steps/bindings.h"
#include "lib/suite/steps/compiled.h"
#include "lib/suite/steps/compiled_part.h"
#include "lib/suite/steps/gpu_step.h"

namespace roofbench {

// O: the family's operands, which the case owns and passes to every step by reference.
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
CaseStep KernelStep(Work work, const Device& device) {
  return [work = std::move(work), threads = device.threads()] { Run(work, kernels::ThreadPool(threads)); };
}

// Wraps a callable as a step that holds the operands: it may take the operands, the marker, both or neither.
template <typename O, typename Step>
CaseStep StepOn(const std::shared_ptr<O>& operands, Step step) {
  if constexpr (std::invocable<Step&, O&, timing::PhaseMarker&>) {
    return [step = std::move(step), operands](timing::PhaseMarker& marker) mutable { step(*operands, marker); };
  } else if constexpr (std::invocable<Step&, O&>) {
    return [step = std::move(step), operands](timing::PhaseMarker&) mutable { step(*operands); };
  } else {
    return [step = CaseStep(std::move(step)), operands](timing::PhaseMarker& marker) { step(marker); };
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
                return GpuStep(in.device(), [operands, launch](const kernels::GpuKernels& table, void* stream) {
                  return launch(table, *operands, stream);
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
