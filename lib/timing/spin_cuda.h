// SPDX-License-Identifier: Apache-2.0
// A kernel that keeps a stream busy for a limited time and ends without the host.
#pragma once

#include <cuda_runtime_api.h>

namespace roofbench::timing {

// Enqueues about `seconds` (at most 0.1) of one spinning thread. Returns the launch's error.
cudaError_t LaunchSpin(double seconds, cudaStream_t stream);

}  // namespace roofbench::timing
