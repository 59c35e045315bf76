// SPDX-License-Identifier: Apache-2.0
// GpuStreams on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "lib/hardware/roofs/gpu_streams.h"

namespace roofbench::hardware {

// On the stream that `current_stream` names at the moment of each call. `sleep` enqueues a sleep of that many seconds.
std::unique_ptr<GpuStreams> MakeCudaStreams(cudaStream_t (*current_stream)(),
                                            cudaError_t (*sleep)(double seconds, cudaStream_t stream));

}  // namespace roofbench::hardware
