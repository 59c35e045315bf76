// SPDX-License-Identifier: Apache-2.0
// A kernel that keeps a stream busy for a while and ends by itself.
#pragma once

#include <cuda_runtime_api.h>

namespace roofbench::timing {

// Enqueues about `seconds` (at most 0.1) of one thread that does nothing. Returns the launch's error.
cudaError_t LaunchSpin(double seconds, cudaStream_t stream);

}  // namespace roofbench::timing
