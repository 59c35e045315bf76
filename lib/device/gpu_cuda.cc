// SPDX-License-Identifier: Apache-2.0
// The CUDA side of lib/device/gpu.h, which the module exports.

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/gpu.h"
#include "lib/hardware/roofs/gpu_streams_cuda.h"
#include "lib/timing/check_cuda.h"
#include "lib/timing/event_queue_cuda.h"
#include "lib/timing/spin_cuda.h"

namespace roofbench {
namespace {

using timing::CheckCuda;

// Steps before a recording: libraries make their handles and choose their kernels, and the allocator learns the sizes.
constexpr int kStepsBeforeRecording = 3;

cudaStream_t CurrentStream() { return c10::cuda::getCurrentCUDAStream().stream(); }

std::string Release(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

GpuFacts ReadFacts(int index) {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, index), "the GPU's properties cannot be read");
  std::array<char, 32> bus{};
  CheckCuda(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index), "the GPU's PCI bus is unknown");
  int driver = 0;
  int runtime = 0;
  CheckCuda(cudaDriverGetVersion(&driver), "the driver's version is unknown");
  CheckCuda(cudaRuntimeGetVersion(&runtime), "the CUDA runtime's version is unknown");
  return {.name = properties.name,
          .index = index,
          .compute_major = properties.major,
          .compute_minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .l2_bytes = static_cast<double>(properties.l2CacheSize),
          .memory_bytes = static_cast<double>(properties.totalGlobalMem),
          .pci_bus_id = bus.data(),
          .cuda_driver = Release(driver),
          .cuda_runtime = Release(runtime)};
}

// The events that stand for the marks while a graph is recorded. Its nodes record other events in each replay.
class Placeholders {
 public:
  Placeholders() = default;
  Placeholders(const Placeholders&) = delete;
  Placeholders& operator=(const Placeholders&) = delete;
  ~Placeholders() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  // External: the node is a record that others can wait for and read, not a dependency inside the graph.
  void Record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    CheckCuda(cudaEventCreate(&event), "a CUDA event could not be made");
    events_.push_back(event);
    CheckCuda(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
              "the end of a phase could not be recorded in the graph");
  }

  const std::vector<cudaEvent_t>& events() const { return events_; }

 private:
  std::vector<cudaEvent_t> events_;
};

class CudaGpuGraph final : public GpuGraph {
 public:
  explicit CudaGpuGraph(const Gpu::Enqueue& enqueue) : graph_(/*keep_graph=*/true) {
    // Capturing needs a stream that is not the default one; what ran before has to be over for it, and the other way
    // round.
    const c10::cuda::CUDAStream caller = c10::cuda::getCurrentCUDAStream();
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, caller.device_index());
    CheckCuda(cudaDeviceSynchronize(), "the GPU stopped before a graph was recorded");
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      for (int i = 0; i < kStepsBeforeRecording; ++i) enqueue([] {});
      CheckCuda(cudaStreamSynchronize(stream.stream()), "the GPU stopped in a step that was to be recorded");
      graph_.capture_begin();
      try {
        enqueue([&] { placeholders_.Record(stream.stream()); });
      } catch (...) {
        try {
          graph_.capture_end();
        } catch (...) {  // NOLINT(bugprone-empty-catch): the step's exception, on its way now, tells more
        }
        throw;
      }
      graph_.capture_end();
    }
    FindNodes();
    graph_.instantiate();
  }

  void Replay(const std::function<void()>& mark) override {
    timing::GatheredEvents gathered;
    mark();
    const std::vector<cudaEvent_t>& events = gathered.events();
    // Marks that nobody wants (an untimed step) go to the placeholders, as at first.
    if (!events.empty() && events.size() != nodes_.size()) {
      throw std::logic_error("a graph with " + std::to_string(nodes_.size()) + " marks was asked for " +
                             std::to_string(events.size()));
    }
    // Launches that wait in the queue keep the events that they were given.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      CheckCuda(cudaGraphExecEventRecordNodeSetEvent(graph_.raw_cuda_graph_exec(), nodes_[i],
                                                     events.empty() ? placeholders_.events()[i] : events[i]),
                "a mark of the graph could not be set");
    }
    graph_.replay();
  }

 private:
  // The nodes of the marks, in the order in which they were recorded.
  void FindNodes() {
    std::size_t count = 0;
    CheckCuda(cudaGraphGetNodes(graph_.raw_cuda_graph(), nullptr, &count), "the graph cannot be read");
    std::vector<cudaGraphNode_t> all(count);
    CheckCuda(cudaGraphGetNodes(graph_.raw_cuda_graph(), all.data(), &count), "the graph cannot be read");
    nodes_.assign(placeholders_.events().size(), nullptr);
    for (cudaGraphNode_t node : all) {
      cudaGraphNodeType type{};
      CheckCuda(cudaGraphNodeGetType(node, &type), "the graph cannot be read");
      if (type != cudaGraphNodeTypeEventRecord) continue;
      cudaEvent_t event = nullptr;
      CheckCuda(cudaGraphEventRecordNodeGetEvent(node, &event), "the graph cannot be read");
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (placeholders_.events()[i] == event) nodes_[i] = node;
      }
    }
    for (cudaGraphNode_t node : nodes_) {
      if (node == nullptr) throw std::runtime_error("a mark is missing in the recorded graph");
    }
  }

  Placeholders placeholders_;
  at::cuda::CUDAGraph graph_;
  std::vector<cudaGraphNode_t> nodes_;
};

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(int index) {
    CheckCuda(cudaSetDevice(index), "the GPU cannot be selected");
    CheckCuda(cudaFree(nullptr), "no context can be made on the GPU");
    at::globalContext().lazyInitDevice(at::kCUDA);
    facts_ = ReadFacts(index);
    streams_ = hardware::MakeCudaStreams(&CurrentStream, &timing::LaunchSpin);
  }

  const GpuFacts& facts() const override { return facts_; }

  double FreeMemoryBytes() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    CheckCuda(cudaMemGetInfo(&free, &total), "the free memory of the GPU is unknown");
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device());
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto held = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
    return static_cast<double>(free) + static_cast<double>(held);
  }
  void EmptyCache() override { c10::cuda::CUDACachingAllocator::emptyCache(); }
  double PeakBytes() const override {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<double>(c10::cuda::CUDACachingAllocator::getDeviceStats(device()).allocated_bytes[kAll].peak);
  }
  void ResetPeak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(device()); }
  void Synchronise() override { CheckCuda(cudaDeviceSynchronize(), "the GPU stopped in a step"); }

  std::unique_ptr<timing::EventQueue> NewEventQueue() const override {
    return timing::MakeCudaEventQueue(&CurrentStream);
  }
  hardware::GpuStreams& streams() override { return *streams_; }
  void Zero(std::byte* memory, std::size_t bytes) override {
    CheckCuda(cudaMemsetAsync(memory, 0, bytes, CurrentStream()), "memory of the GPU could not be zeroed");
  }
  void Spin(double seconds) override {
    CheckCuda(timing::LaunchSpin(seconds, CurrentStream()), "extra work could not be launched");
  }
  std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) override { return std::make_unique<CudaGpuGraph>(enqueue); }
  void* Stream() const override { return CurrentStream(); }
  // The module that this is in was opened for all of the process to see.
  const void* Export(const std::string& symbol) const override { return dlsym(RTLD_DEFAULT, symbol.c_str()); }

 private:
  c10::DeviceIndex device() const { return static_cast<c10::DeviceIndex>(facts_.index); }

  GpuFacts facts_;
  std::unique_ptr<hardware::GpuStreams> streams_;
};

int Count(std::string* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  cudaGetLastError();
  if (error == cudaErrorNoDevice) return 0;
  *why = timing::Describe(error);
  return -1;
}

Gpu* Open(int index, std::string* why) {
  try {
    return new CudaGpu(index);
  } catch (const std::exception& error) {
    *why = error.what();
    return nullptr;
  }
}

}  // namespace
}  // namespace roofbench

extern "C" __attribute__((visibility("default"))) const roofbench::GpuModule roofbench_gpu_module = {
    .version = roofbench::kGpuModuleVersion,
    .count = &roofbench::Count,
    .open = &roofbench::Open,
};
