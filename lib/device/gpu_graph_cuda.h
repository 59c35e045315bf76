// SPDX-License-Identifier: Apache-2.0
// Recording of work as a CUDA graph.
#pragma once

#include <memory>

#include "lib/device/gpu.h"

namespace roofbench {

// As Gpu::Record, on a stream of LibTorch's pool.
std::unique_ptr<GpuGraph> RecordCudaGraph(const Gpu::Enqueue& enqueue);

}  // namespace roofbench
