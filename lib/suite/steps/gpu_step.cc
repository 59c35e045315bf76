// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/steps/gpu_step.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/device/gpu.h"

namespace roofbench {
namespace {

// nullptr if there are none.
const kernels::GpuKernels* FindKernels(const Device& device) {
  const Gpu* const gpu = device.gpu();
  return gpu == nullptr ? nullptr : static_cast<const kernels::GpuKernels*>(gpu->Export(kernels::kGpuKernelsSymbol));
}

}  // namespace

absl::Status GpuKernelsSupport(const Device& device) {
  const kernels::GpuKernels* const table = FindKernels(device);
  if (table == nullptr) return absl::UnimplementedError("the CUDA part of this build has no kernels of ours");
  if (table->version != kernels::kGpuKernelsVersion) {
    return absl::UnimplementedError(absl::StrCat("the kernels of the CUDA part belong to another build (interface ",
                                                 table->version, ", this one needs ", kernels::kGpuKernelsVersion,
                                                 "): build or install both together"));
  }
  return absl::OkStatus();
}

absl::Status GpuRowsSupport(int64_t cols) {
  if (cols % kernels::kGpuVector != 0 || cols > kernels::kMostRowColumns) {
    return absl::UnimplementedError(absl::StrCat("our kernel takes rows of a multiple of ", kernels::kGpuVector,
                                                 " elements, ", kernels::kMostRowColumns,
                                                 " at most; the eager implementation takes ", cols));
  }
  return absl::OkStatus();
}

kernels::RowType RowTypeOf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? kernels::RowType::kBf16 : kernels::RowType::kFp32;
}

kernels::WeightType WeightTypeOf(workload::WeightFormat format) {
  using workload::WeightFormat;
  if (format == WeightFormat::kFp32) return kernels::WeightType::kFp32;
  if (format == WeightFormat::kInt8) return kernels::WeightType::kInt8;
  return format == WeightFormat::kInt4 ? kernels::WeightType::kInt4 : kernels::WeightType::kBf16;
}

std::function<void(const GpuLaunch& launch)> GpuLauncher(const Device& device) {
  return [table = FindKernels(device), gpu = device.gpu()](const GpuLaunch& launch) {
    const int error = launch(*table, gpu->Stream());
    if (error != 0) {
      throw std::runtime_error("our kernel could not be launched on the GPU: CUDA error " + std::to_string(error));
    }
  };
}

CaseStep GpuStep(const Device& device, GpuLaunch launch) {
  return [launcher = GpuLauncher(device), launch = std::move(launch)] { launcher(launch); };
}

}  // namespace roofbench
