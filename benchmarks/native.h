// How the cases hand tensors to our own kernels.
#pragma once

#include <utility>

#include "lib/harness/device.h"
#include "lib/kernels/bf16.h"
#include "lib/kernels/team.h"
#include "lib/models/elements.h"

namespace roofbench {

using models::Elements;

// function(T()) for the element type of a precision: fp32 or bf16.
template <typename Function>
auto WithElement(workload::Dtype dtype, Function function) {
  return dtype == workload::Dtype::kBf16 ? function(kernels::Bf16()) : function(float());
}

// A step that runs a kernel (a struct with its Run function) on the device's threads.
template <typename Work>
auto NativeStep(Work work, const Device& device) {
  return [work = std::move(work), threads = device.threads()] { Run(work, kernels::OpenMpTeam(threads)); };
}

}  // namespace roofbench
