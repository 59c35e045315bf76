// SPDX-License-Identifier: Apache-2.0
// Steps of a case on a GPU: our own kernels (lib/kernels/cuda/gpu_kernels.h defines them) and recorded graphs.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
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

// Calls `launch(table, stream)`, which enqueues one of our kernels on LibTorch's current stream and returns CUDA's
// error (0: none). Throws std::runtime_error if it fails. The device must satisfy GpuKernelsSupport and outlive this.
class GpuLauncher {
 public:
  explicit GpuLauncher(const Device& device);
  template <typename Launch>
  void operator()(Launch launch) const {
    Check(launch(*table_, Stream()));
  }

 private:
  void* Stream() const;
  static void Check(int error);

  const kernels::GpuKernels* table_;
  const Gpu* gpu_;
};

// `impl:graph`: a step recorded once as a CUDA graph and launched as a whole.

// OK on a device with graphs; otherwise the reason for skipping the case. For the Supports of a family.
absl::Status SupportsGraph(const Device& device);

// The same case with its step recorded. The step must leave its results in the same memory each time and must not wait
// for the device. Phases keep their marks, which the graph records.
// The steps before the recording have left a right result, so it is overwritten with NaN: a graph that computes nothing
// fails the check. A case with `effects` is compared here, one launch with one step; DataLoss if they differ.
absl::StatusOr<Case> Graphed(Case eager, Device& device);

}  // namespace roofbench
