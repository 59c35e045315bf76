// SPDX-License-Identifier: Apache-2.0
// How a case calls our own kernels on a GPU: lib/kernels/cuda/gpu_kernels.h has them.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/kernels/cuda/gpu_kernels.h"
#include "lib/suite/case.h"
#include "lib/workload/weight_format.h"

namespace roofbench {

// OK where the device is a GPU and the CUDA part of the program has our kernels.
absl::Status GpuKernelsSupport(const Device& device);

// Whether our kernels that work row by row take rows of `cols` elements.
absl::Status GpuRowsSupport(int64_t cols);

// The rows of a tensor in fp32 or bf16.
kernels::RowType RowTypeOf(const at::Tensor& tensor);

// How our kernels read weights of the format; what is stored in 16 bits is bf16 to them.
kernels::WeightType WeightTypeOf(workload::WeightFormat format);

// Enqueues a kernel on the stream, and returns its error (0: none). It keeps alive what the kernel works on.
using GpuLaunch = std::function<int(const kernels::GpuKernels& table, void* stream)>;

// Launches at once, on the stream that LibTorch works on, and throws std::runtime_error where the launch fails.
// `device` is one that GpuKernelsSupport is OK with, and outlives what is returned.
std::function<void(const GpuLaunch& launch)> GpuLauncher(const Device& device);

// A step that launches a kernel so.
CaseStep GpuStep(const Device& device, GpuLaunch launch);

}  // namespace roofbench
