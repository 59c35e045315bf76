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

// The stream that receives work at the moment of the call.
using CurrentStream = cudaStream_t (*)();

// Events have timing enabled (LibTorch's pool disables it) and live as long as the queue.
std::unique_ptr<EventQueue> MakeCudaEventQueue(CurrentStream current_stream);

// While it lives, events that queues should record on this thread are collected here and not enqueued: for the replay
// of a graph whose own nodes will record them.
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

// CUDA's description of an error, and its name.
inline std::string Describe(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Throws std::runtime_error with the failed operation and the reason. Clears the error from the runtime where possible:
// LibTorch would otherwise report it after its next launch, in an unrelated case.
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + Describe(error));
}

}  // namespace roofbench::timing
