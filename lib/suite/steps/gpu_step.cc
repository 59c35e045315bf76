// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/steps/gpu_step.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/gpu.h"

namespace roofbench {
namespace {

// nullptr if there are none.
const kernels::GpuKernels* FindKernels(const Device& device) {
  const Gpu* const gpu = device.gpu();
  return gpu == nullptr ? nullptr : static_cast<const kernels::GpuKernels*>(gpu->Export(kernels::kGpuKernelsSymbol));
}

// Records which phases a step ends, and places a mark at each.
class RecordedPhases final : public timing::PhaseMarker {
 public:
  explicit RecordedPhases(const std::function<void()>& mark) : mark_(mark) {}
  void End(int phase) override {
    phases_.push_back(phase);
    mark_();
  }
  std::vector<int> Take() { return std::move(phases_); }

 private:
  const std::function<void()>& mark_;
  std::vector<int> phases_;
};

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

GpuLauncher::GpuLauncher(const Device& device) : table_(FindKernels(device)), gpu_(device.gpu()) {}

void* GpuLauncher::Stream() const { return gpu_->Stream(); }

void GpuLauncher::Check(int error) {
  if (error == 0) return;
  throw std::runtime_error("our kernel could not be launched on the GPU: CUDA error " + std::to_string(error));
}

absl::Status SupportsGraph(const Device& device) {
  if (device.gpu() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "CUDA graphs need a GPU; the eager implementation is the same work, launched one by one");
}

absl::StatusOr<Case> Graphed(Case eager, Device& device) {
  if (absl::Status status = SupportsGraph(device); !status.ok()) return status;
  std::vector<int> phases;
  std::shared_ptr<GpuGraph> graph;
  {
    const at::AutoGradMode grad(eager.autograd);
    graph = device.gpu()->Record([&](const std::function<void()>& mark) {
      RecordedPhases recorder(mark);
      eager.step(recorder);
      phases = recorder.Take();
    });
  }
  Case graphed = std::move(eager);
  // Keeps the eager step, which owns the graph's tensors.
  graphed.step = [graph, phases, keep = graphed.step](timing::PhaseMarker& marker) {
    graph->Replay([&] {
      for (const int phase : phases) marker.End(phase);
    });
  };
  return graphed;
}

}  // namespace roofbench
