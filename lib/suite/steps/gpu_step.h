// SPDX-License-Identifier: Apache-2.0
// Runs our own kernels on a GPU as steps of a case: lib/kernels/cuda/gpu_kernels.h defines them.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/kernels/cuda/gpu_kernels.h"
#include "lib/suite/case.h"
#include "lib/workload/weight_format.h"

namespace roofbench {

// OK if the device is a GPU and the CUDA part of the program has our kernels.
absl::Status GpuKernelsSupport(const Device& device);

// Whether our row-wise kernels support rows of `cols` elements.
absl::Status GpuRowsSupport(int64_t cols);

// The rows of a tensor in fp32 or bf16.
kernels::RowType RowTypeOf(const at::Tensor& tensor);

// The type of the format's weights in our kernels, for which 16-bit storage is bf16.
kernels::WeightType WeightTypeOf(workload::WeightFormat format);

// Enqueues a kernel on the stream and returns its error (0: none). It keeps the kernel's tensors alive.
using GpuLaunch = std::function<int(const kernels::GpuKernels& table, void* stream)>;

// Returns a function that launches immediately, on LibTorch's current stream, and throws std::runtime_error if the
// launch fails. `device` must satisfy GpuKernelsSupport and outlive the function.
std::function<void(const GpuLaunch& launch)> GpuLauncher(const Device& device);

// A step that launches a kernel this way.
CaseStep GpuStep(const Device& device, GpuLaunch launch);

}  // namespace roofbench
