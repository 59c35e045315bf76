// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/gpu_streams_cuda.h"

#include <array>

#include "lib/hardware/roofs/stream_kernels_cuda.h"
#include "lib/timing/event_queue_cuda.h"

namespace roofbench::hardware {
namespace {

constexpr std::array<std::string_view, kCudaStreamVariants> kVariants = {"plain", "streaming"};
constexpr std::size_t kWordBytes = 16;
// Lets the passes and the events around them queue up.
constexpr double kSleepSeconds = 50e-6;

using timing::CheckCuda;

class CudaStreams final : public GpuStreams {
 public:
  CudaStreams(cudaStream_t (*current_stream)(), cudaError_t (*sleep)(double, cudaStream_t))
      : current_stream_(current_stream), sleep_(sleep) {
    CheckCuda(cudaEventCreate(&start_), "a CUDA event could not be made");
    CheckCuda(cudaEventCreate(&end_), "a CUDA event could not be made");
  }
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;
  ~CudaStreams() override {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }

  std::span<const std::string_view> variants() const override { return kVariants; }

  std::byte* Allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
      cudaGetLastError();  // clears the error: the next launch is not at fault
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory) override { cudaFree(memory); }

  void Upload(std::byte* to, std::span<const uint64_t> words) override {
    CheckCuda(cudaMemcpyAsync(to, words.data(), words.size_bytes(), cudaMemcpyHostToDevice, current_stream_()),
              "a copy to the GPU failed");
    CheckCuda(cudaStreamSynchronize(current_stream_()), "a copy to the GPU failed");
  }
  void Download(std::span<uint64_t> words, const std::byte* from) override {
    CheckCuda(cudaMemcpyAsync(words.data(), from, words.size_bytes(), cudaMemcpyDeviceToHost, current_stream_()),
              "a copy from the GPU failed");
    CheckCuda(cudaStreamSynchronize(current_stream_()), "a copy from the GPU failed");
  }

  void Enqueue(const GpuPass& pass) override {
    CheckCuda(LaunchCudaStream(static_cast<CudaStream>(pass.kind), pass.variant, pass.to, pass.from,
                               pass.bytes / kWordBytes, pass.repeat, kWritePattern, current_stream_()),
              "a memory stream could not be launched");
  }

  double Seconds(std::span<const GpuPass> passes) override {
    CheckCuda(sleep_(kSleepSeconds, current_stream_()), "the sleep before a probe could not be launched");
    CheckCuda(cudaEventRecord(start_, current_stream_()), "a CUDA event could not be recorded");
    for (const GpuPass& pass : passes) Enqueue(pass);
    CheckCuda(cudaEventRecord(end_, current_stream_()), "a CUDA event could not be recorded");
    CheckCuda(cudaEventSynchronize(end_), "a memory stream failed");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, start_, end_), "the time of a probe could not be read");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaStream_t (*current_stream_)();
  cudaError_t (*sleep_)(double, cudaStream_t);
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

std::unique_ptr<GpuStreams> MakeCudaStreams(cudaStream_t (*current_stream)(),
                                            cudaError_t (*sleep)(double, cudaStream_t)) {
  return std::make_unique<CudaStreams>(current_stream, sleep);
}

}  // namespace roofbench::hardware
