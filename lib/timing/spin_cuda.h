// SPDX-License-Identifier: Apache-2.0
// A kernel that keeps a stream busy for a limited time and ends without the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace roofbench::timing {

// How long the thread spun by two clocks: that of its multiprocessor, and that of wall time.
struct SpinReading {
  int64_t cycles = 0;
  int64_t nanoseconds = 0;

  // Of the multiprocessor's clock; 0 of a thread that has not spun.
  double Hertz() const {
    return nanoseconds > 0 ? 1e9 * static_cast<double>(cycles) / static_cast<double>(nanoseconds) : 0;
  }
};

// Enqueues about `seconds` (at most 0.1) of one spinning thread. Returns the launch's error.
cudaError_t LaunchSpin(double seconds, cudaStream_t stream);
// The same; the thread leaves its reading in memory of the host that the device can write.
cudaError_t LaunchSpin(double seconds, cudaStream_t stream, SpinReading* reading);

}  // namespace roofbench::timing
