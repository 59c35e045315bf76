// SPDX-License-Identifier: Apache-2.0
// Makes a stream other than the default one LibTorch's current stream.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace roofbench {

// A stream of device 0, current while the guard lives.
inline c10::cuda::CUDAStreamGuard OtherStream() {
  return c10::cuda::CUDAStreamGuard(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, /*device=*/0));
}

}  // namespace roofbench
