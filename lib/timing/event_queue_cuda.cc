// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/event_queue_cuda.h"

#include "lib/timing/spin_cuda.h"

namespace roofbench::timing {
namespace {

thread_local GatheredEvents* g_gathered = nullptr;

class CudaEventQueue final : public EventQueue {
 public:
  explicit CudaEventQueue(CurrentStream current_stream) : current_stream_(current_stream) {}
  CudaEventQueue(const CudaEventQueue&) = delete;
  CudaEventQueue& operator=(const CudaEventQueue&) = delete;
  ~CudaEventQueue() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaFreeHost(slept_);
  }

  void Reserve(std::size_t count) override {
    while (events_.size() < count) {
      cudaEvent_t event = nullptr;
      CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDefault), "a CUDA event could not be made");
      events_.push_back(event);
    }
  }

  void Sleep(double seconds) override {
    if (slept_ == nullptr) {
      void* memory = nullptr;
      CheckCuda(cudaHostAlloc(&memory, sizeof(SpinReading), cudaHostAllocMapped), "no memory for the GPU's clock");
      slept_ = static_cast<SpinReading*>(memory);
    }
    *slept_ = {};
    CheckCuda(LaunchSpin(seconds, current_stream_(), slept_), "the sleep before a chunk could not be launched");
  }

  double SleptHertz() const override { return slept_ == nullptr ? 0 : slept_->Hertz(); }

  void Record(std::size_t event) override {
    if (g_gathered != nullptr) {
      g_gathered->Add(events_.at(event));
      return;
    }
    CheckCuda(cudaEventRecord(events_.at(event), current_stream_()), "a CUDA event could not be recorded");
  }

  bool IsPassed(std::size_t event) override {
    const cudaError_t state = cudaEventQuery(events_.at(event));
    if (state != cudaErrorNotReady) CheckCuda(state, "the GPU stopped in a step");
    return state == cudaSuccess;
  }

  void Wait(std::size_t event) override {
    CheckCuda(cudaEventSynchronize(events_.at(event)), "the GPU stopped in a step");
  }

  double SecondsBetween(std::size_t earlier, std::size_t later) override {
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, events_.at(earlier), events_.at(later)),
              "the time between two CUDA events could not be read");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  CurrentStream current_stream_;
  std::vector<cudaEvent_t> events_;
  SpinReading* slept_ = nullptr;  // of the last sleep, written by the GPU
};

}  // namespace

GatheredEvents::GatheredEvents() : outer_(g_gathered) { g_gathered = this; }
GatheredEvents::~GatheredEvents() { g_gathered = outer_; }

std::unique_ptr<EventQueue> MakeCudaEventQueue(CurrentStream current_stream) {
  return std::make_unique<CudaEventQueue>(current_stream);
}

}  // namespace roofbench::timing
