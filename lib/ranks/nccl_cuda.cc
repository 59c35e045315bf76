// SPDX-License-Identifier: Apache-2.0
// LibTorch's NCCL backend, which the CUDA part exports.

#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lib/ranks/device_group.h"

namespace roofbench::ranks {
namespace {

c10::intrusive_ptr<c10d::Backend> Make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                       at::Device device, std::chrono::milliseconds timeout) {
  const c10::cuda::CUDAGuard guard(device);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(options));
  // Otherwise a barrier guesses the device by the rank.
  group->setBoundDeviceId(device);
  return group;
}

}  // namespace
}  // namespace roofbench::ranks

extern "C" __attribute__((visibility("default"))) const roofbench::ranks::NcclModule roofbench_nccl = {
    .make = &roofbench::ranks::Make,
};
