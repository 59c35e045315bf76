// How the cases call our own kernels on a GPU: lib/kernels/gpu_kernels.h has them.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "lib/harness/case.h"
#include "lib/harness/device.h"
#include "lib/harness/point.h"
#include "lib/kernels/gpu_kernels.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// Whether the point is of impl:native and the device a GPU.
bool IsNativeOnGpu(const Point& at, const Device& device);

// OK where the device is a GPU and the CUDA part of the program has our kernels.
absl::Status GpuKernelsSupport(const Device& device);

// The same for kernels that work row by row: whether they take rows of `cols` elements.
absl::Status GpuRowsSupport(const Device& device, int64_t cols);

kernels::RowType RowTypeOf(workload::Dtype dtype);

// Enqueues a kernel on the stream, and returns its error (0: none). It keeps alive what the kernel works on.
using GpuLaunch = std::function<int(const kernels::GpuKernels& table, void* stream)>;

// A step that launches a kernel on the stream that LibTorch works on, and throws std::runtime_error where the launch
// fails. `device` is one that GpuKernelsSupport is OK with, and outlives the step.
CaseStep GpuStep(const Device& device, GpuLaunch launch);

}  // namespace roofbench
