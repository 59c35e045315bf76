// SPDX-License-Identifier: Apache-2.0
// The events of a CUDA stream as an EventQueue.
#pragma once

#include <cuda_runtime_api.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/timing/event_clock.h"

namespace roofbench::timing {

// The stream that work goes to at the moment of the call.
using CurrentStream = cudaStream_t (*)();

// Events are made with timing on (LibTorch's pool has it off) and live as long as the queue.
std::unique_ptr<EventQueue> MakeCudaEventQueue(CurrentStream current_stream);

// While it lives, events that queues should record on this thread are gathered here and not enqueued: the replay of a
// graph whose own nodes will record them.
class GatheredEvents {
 public:
  GatheredEvents();
  ~GatheredEvents();
  GatheredEvents(const GatheredEvents&) = delete;
  GatheredEvents& operator=(const GatheredEvents&) = delete;

  const std::vector<cudaEvent_t>& events() const { return events_; }
  void Add(cudaEvent_t event) { events_.push_back(event); }

 private:
  std::vector<cudaEvent_t> events_;
  GatheredEvents* outer_;
};

// Errors of the CUDA runtime as exceptions.

// CUDA's words for an error, and its name.
inline std::string Describe(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Throws std::runtime_error: what failed, and why. The runtime forgets an error that it can forget: LibTorch would find
// it behind its next launch, in a case that has nothing to do with it.
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + Describe(error));
}

}  // namespace roofbench::timing
