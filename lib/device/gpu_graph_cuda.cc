// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gpu_graph_cuda.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/timing/event_queue_cuda.h"

namespace roofbench {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using timing::CheckCuda;

// Steps before a recording: libraries create their handles and choose their kernels, and the allocator learns the
// sizes.
constexpr int kStepsBeforeRecording = 3;

// A memory pool of LibTorch's allocator that one graph alone uses.
class PrivatePool {
 public:
  explicit PrivatePool(c10::DeviceIndex device) : device_(device), id_(at::cuda::graph_pool_handle()) {}
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;
  ~PrivatePool() {
    if (!is_made_) return;
    try {
      allocator::releasePool(device_, id_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): nothing can be freed on a lost device
    }
  }

  // While it lives, allocations on the stream come from the pool.
  class Use {
   public:
    Use(PrivatePool& pool, cudaStream_t stream) : pool_(pool) {
      allocator::beginAllocateToPool(pool.device_, pool.id_, [stream](cudaStream_t other) { return other == stream; });
      pool.is_made_ = true;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      try {
        allocator::endAllocateToPool(pool_.device_, pool_.id_);
      } catch (...) {  // NOLINT(bugprone-empty-catch): fails only for a pool that is not in use
      }
    }

   private:
    PrivatePool& pool_;
  };

 private:
  const c10::DeviceIndex device_;
  const c10::MempoolId_t id_;
  bool is_made_ = false;
};

// The stream of all recordings on a device: cuBLAS keeps a workspace for every stream that it meets, 32 MiB on Hopper.
c10::cuda::CUDAStream RecordingStream(c10::DeviceIndex device) {
  static auto& streams = *new std::map<c10::DeviceIndex, c10::cuda::CUDAStream>();
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  return streams.emplace(device, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)).first->second;
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

  // External: the node is a record that other code can wait for and read, not a dependency inside the graph.
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

// Captures the work that the stream receives between construction and End as a graph.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "a recording could not begin");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // The stream must leave capture mode after any exception.
  ~Capture() {
    if (has_ended_) return;
    cudaGraph_t partial = nullptr;
    cudaStreamEndCapture(stream_, &partial);
    if (partial != nullptr) cudaGraphDestroy(partial);
    cudaGetLastError();  // the exception already carries the reason
  }

  cudaGraph_t End() {
    has_ended_ = true;
    cudaGraph_t graph = nullptr;
    CheckCuda(cudaStreamEndCapture(stream_, &graph), "the step cannot be recorded as a graph");
    return graph;
  }

 private:
  const cudaStream_t stream_;
  bool has_ended_ = false;
};

// LibTorch's own class (at::cuda::CUDAGraph) does not fit: after a failed recording it leaves its pool registered with
// the allocator and its generators recording, for every case that follows.
class CudaGpuGraph final : public GpuGraph {
 public:
  explicit CudaGpuGraph(const Gpu::Enqueue& enqueue) : pool_(c10::cuda::getCurrentCUDAStream().device_index()) {
    // Recording needs a stream other than the default one. The device finishes the caller's work before this stream
    // starts, and this stream's steps before the recording.
    const c10::cuda::CUDAStream caller = c10::cuda::getCurrentCUDAStream();
    const c10::cuda::CUDAStream stream = RecordingStream(caller.device_index());
    CheckCuda(cudaDeviceSynchronize(), "the GPU stopped before a graph was recorded");
    const c10::cuda::CUDAStreamGuard guard(stream);
    for (int i = 0; i < kStepsBeforeRecording; ++i) enqueue([] {});
    CheckCuda(cudaStreamSynchronize(stream.stream()), "the GPU stopped in a step that was to be recorded");
    // The pool takes its memory from the driver, and during the recording the allocator cannot free memory for it.
    allocator::emptyCache();
    const PrivatePool::Use use(pool_, stream.stream());
    Capture capture(stream.stream());
    enqueue([&] { placeholders_.Record(stream.stream()); });
    graph_ = capture.End();
    try {
      FindNodes();
      // The same mode as LibTorch's.
      CheckCuda(cudaGraphInstantiateWithFlags(&executable_, graph_, cudaGraphInstantiateFlagAutoFreeOnLaunch),
                "the recorded graph cannot be made ready");
    } catch (...) {
      Destroy();
      throw;
    }
  }
  CudaGpuGraph(const CudaGpuGraph&) = delete;
  CudaGpuGraph& operator=(const CudaGpuGraph&) = delete;
  ~CudaGpuGraph() override { Destroy(); }

  void Replay(const std::function<void()>& mark) override {
    timing::GatheredEvents gathered;
    mark();
    const std::vector<cudaEvent_t>& events = gathered.events();
    // Unneeded marks (of an untimed step) go to the placeholders again.
    if (!events.empty() && events.size() != nodes_.size()) {
      throw std::logic_error("a graph with " + std::to_string(nodes_.size()) + " marks was asked for " +
                             std::to_string(events.size()));
    }
    // Launches that wait in the queue keep the events that they were given.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      CheckCuda(cudaGraphExecEventRecordNodeSetEvent(executable_, nodes_[i],
                                                     events.empty() ? placeholders_.events()[i] : events[i]),
                "a mark of the graph could not be set");
    }
    CheckCuda(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream().stream()),
              "the recorded graph could not be launched");
  }

 private:
  void Destroy() const {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  // The nodes of the marks, in recording order.
  void FindNodes() {
    std::size_t count = 0;
    CheckCuda(cudaGraphGetNodes(graph_, nullptr, &count), "the graph cannot be read");
    std::vector<cudaGraphNode_t> all(count);
    CheckCuda(cudaGraphGetNodes(graph_, all.data(), &count), "the graph cannot be read");
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

  PrivatePool pool_;
  Placeholders placeholders_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace

std::unique_ptr<GpuGraph> RecordCudaGraph(const Gpu::Enqueue& enqueue) {
  return std::make_unique<CudaGpuGraph>(enqueue);
}

}  // namespace roofbench
