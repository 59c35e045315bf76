// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime without a GPU, for the calls of LibTorch and ours: it allocates by malloc, keeps a time for each
// stream and records captures. It replaces NVIDIA's in a program that links it or is started with it preloaded, and its
// name is that of the driver's library; all other functions are NVIDIA's own.
//
// Every operation takes a microsecond of its stream, and streams run at the same time, as LibTorch's do. Copies happen
// when the host waits for them. Calls that CUDA refuses fail here with CUDA's error.

#include "tests/fake_cuda/fake_runtime_cuda.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The runtime's library defines the types of its handles.
struct CUevent_st {
  bool is_timed = true;
  bool is_blocking = false;
  bool is_recorded = false;
  double seconds = 0;     // when the device reaches it
  bool by_graph = false;  // recorded by a graph, unknown to the host: waiting for it returns at once
};
struct CUgraphNode_st {
  cudaGraphNodeType type;
  cudaEvent_t event = nullptr;
  std::function<void()> copy = nullptr;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  const CUgraph_st* graph;
  std::map<const CUgraphNode_st*, cudaEvent_t> events = {};  // that nodes record instead of the captured ones
};
struct CUstream_st {
  int device = 0;
  double seconds = 0;                              // when the device has finished all of its work
  int operations = 0;                              // outside captures
  std::unique_ptr<CUgraph_st> captured = nullptr;  // during a capture
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id capturer = {};
  bool is_invalid = false;  // the capture contains a forbidden call
};

namespace {

using roofbench::FakeCuda;
using roofbench::TheFakeCuda;

struct Block {
  int device;
  std::size_t bytes;
};

std::map<void*, Block> g_blocks;
std::array<CUstream_st, FakeCuda::kDevices> g_default_streams = {CUstream_st{.device = 0}, CUstream_st{.device = 1}};
std::vector<std::unique_ptr<CUstream_st>> g_streams;
std::set<CUstream_st*> g_capturing;
std::set<cudaEvent_t> g_events;                         // that exist
std::multimap<double, std::function<void()>> g_copies;  // by the time at which the device reaches them
double g_awaited = 0;                                   // the latest time that the host has waited for
thread_local cudaError_t t_last_error = cudaSuccess;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;
thread_local struct {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
} t_configuration;

bool IsDefault(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

CUstream_st& StreamOf(cudaStream_t stream) {
  return IsDefault(stream) ? g_default_streams.at(static_cast<std::size_t>(TheFakeCuda().device)) : *stream;
}

cudaError_t Failed(cudaError_t error) {
  if (error != cudaSuccess) t_last_error = error;
  return error;
}

// Ends every call: a sticky error is returned by all.
cudaError_t Done(cudaError_t error = cudaSuccess) {
  const cudaError_t sticky = TheFakeCuda().sticky_error;
  return Failed(sticky != cudaSuccess ? sticky : error);
}

// Calls that invalidate every capture.
cudaError_t Invalidated() {
  for (CUstream_st* stream : g_capturing) stream->is_invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

// Calls that are unsafe during a capture: its mode and that of the thread decide whether CUDA refuses them.
cudaError_t IfSafe() {
  for (const CUstream_st* stream : g_capturing) {
    if (t_mode == cudaStreamCaptureModeRelaxed || stream->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_global = t_mode == cudaStreamCaptureModeGlobal && stream->mode == cudaStreamCaptureModeGlobal;
    if (is_global || stream->capturer == std::this_thread::get_id()) return Invalidated();
  }
  return cudaSuccess;
}

// Not an error: a call that finds the device at work leaves none for cudaGetLastError.
cudaError_t ReadyAt(double seconds) { return seconds > g_awaited ? cudaErrorNotReady : Done(); }

// The host waits for the device time `seconds`.
void RunUntil(double seconds) {
  g_awaited = std::max(g_awaited, seconds);
  while (!g_copies.empty() && g_copies.begin()->first <= g_awaited) {
    g_copies.begin()->second();
    g_copies.erase(g_copies.begin());
  }
}

cudaError_t Awaited(double seconds) {
  if (!g_capturing.empty()) return Done(Invalidated());
  RunUntil(seconds);
  return Done(std::exchange(TheFakeCuda().next_error, cudaSuccess));
}

// When all streams of the current device have finished.
double EndOfDevice() {
  double end = StreamOf(nullptr).seconds;
  for (const auto& stream : g_streams) {
    if (stream->device == TheFakeCuda().device) end = std::max(end, stream->seconds);
  }
  return end;
}

// The device executes `node` after all earlier work of the stream.
void Execute(CUstream_st& stream, const CUgraphNode_st& node, bool by_graph) {
  ++stream.operations;
  stream.seconds = std::max(stream.seconds, g_awaited) + 1e-6;
  if (node.copy) g_copies.emplace(stream.seconds, node.copy);
  if (node.event == nullptr) return;
  node.event->is_recorded = true;
  node.event->seconds = stream.seconds;
  node.event->by_graph = by_graph;
}

cudaError_t Enqueued(cudaStream_t stream, CUgraphNode_st node) {
  CUstream_st& own = StreamOf(stream);
  if (own.captured) {
    own.captured->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  } else {
    Execute(own, node, /*by_graph=*/false);
  }
  return Done();
}

cudaError_t Launched(cudaStream_t stream) {
  if (const cudaError_t error = std::exchange(TheFakeCuda().next_launch_error, cudaSuccess); error != cudaSuccess) {
    return Done(error);
  }
  if (!StreamOf(stream).captured) ++TheFakeCuda().launches;
  return Enqueued(stream, {.type = cudaGraphNodeTypeKernel});
}

}  // namespace

namespace roofbench {

FakeCuda& TheFakeCuda() {
  static FakeCuda fake = [] {
    FakeCuda made;
    if (const char* mib = std::getenv("FAKE_CUDA_MIB"); mib != nullptr) made.memory = std::stoull(mib) << 20;
    if (const char* count = std::getenv("FAKE_CUDA_DEVICES"); count != nullptr) made.devices = std::atoi(count);
    return made;
  }();
  return fake;
}

int OperationsOn(cudaStream_t stream) { return StreamOf(stream).operations; }
bool HasWaitedFor(cudaStream_t stream) { return StreamOf(stream).seconds <= g_awaited; }

}  // namespace roofbench

// LibTorch's allocator asks this, and LibTorch the driver.
namespace c10::cuda {
__attribute__((visibility("default"))) bool hasPrimaryContext(signed char /*device*/) { return true; }
}  // namespace c10::cuda

extern "C" {

// Devices.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = TheFakeCuda().devices;
  return Done(TheFakeCuda().count_error);
}
cudaError_t cudaGetDevice(int* device) {
  *device = TheFakeCuda().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= TheFakeCuda().devices) return Done(cudaErrorInvalidDevice);
  TheFakeCuda().device = device;
  return Done();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake GPU %d", device);
  properties->major = 9;
  properties->minor = 1;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  for (int& size : properties->maxGridSize) size = 65535;
  for (int& size : properties->maxThreadsDim) size = 1024;
  properties->sharedMemPerBlock = 48 << 10;
  properties->l2CacheSize = 50 << 20;
  properties->totalGlobalMem = TheFakeCuda().memory;
  return Done();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return Done();
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return Done();
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return Done();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return Done();
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 12080;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return Awaited(EndOfDevice()); }
cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(t_last_error, cudaSuccess);
  return TheFakeCuda().sticky_error != cudaSuccess ? TheFakeCuda().sticky_error : last;
}
cudaError_t cudaPeekAtLastError() { return t_last_error; }

// Memory.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = IfSafe(); error != cudaSuccess) return Done(error);
  FakeCuda& fake = TheFakeCuda();
  const int device = fake.device;
  if (fake.used[static_cast<std::size_t>(device)] + bytes > fake.memory) return Done(cudaErrorMemoryAllocation);
  constexpr std::size_t kAlignment = 512;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  g_blocks[*memory] = {device, bytes};
  fake.used[static_cast<std::size_t>(device)] += bytes;
  return Done();
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return Done();
  if (const cudaError_t error = IfSafe(); error != cudaSuccess) return Done(error);
  const auto found = g_blocks.find(memory);
  if (found == g_blocks.end()) return Done(cudaErrorInvalidValue);
  if (g_capturing.empty()) RunUntil(EndOfDevice());
  TheFakeCuda().used[static_cast<std::size_t>(found->second.device)] -= found->second.bytes;
  g_blocks.erase(found);
  std::free(memory);
  return Done();
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int) {
  *memory = std::malloc(bytes);
  return Done();
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return Done();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  auto found = g_blocks.upper_bound(const_cast<void*>(memory));
  const bool is_device =
      found != g_blocks.begin() &&
      static_cast<const char*>(memory) < static_cast<const char*>((--found)->first) + found->second.bytes;
  attributes->type = is_device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->device = is_device ? found->second.device : 0;
  return Done();
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const FakeCuda& fake = TheFakeCuda();
  *total = fake.memory;
  *free = fake.memory - fake.used[static_cast<std::size_t>(fake.device)];
  return Done();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueued(stream, {.type = cudaGraphNodeTypeMemcpy, .copy = [=] { std::memcpy(to, from, bytes); }});
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return Enqueued(stream, {.type = cudaGraphNodeTypeMemset, .copy = [=] { std::memset(to, value, bytes); }});
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? Awaited(StreamOf(nullptr).seconds) : error;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }

// Streams and events.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  g_streams.push_back(std::make_unique<CUstream_st>());
  *stream = g_streams.back().get();
  (*stream)->device = TheFakeCuda().device;
  return Done();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return Awaited(StreamOf(stream).seconds); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return ReadyAt(StreamOf(stream).seconds); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  StreamOf(stream).seconds = std::max(StreamOf(stream).seconds, event->seconds);
  return Done();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  *event = new CUevent_st{.is_timed = (flags & cudaEventDisableTiming) == 0,
                          .is_blocking = (flags & cudaEventBlockingSync) != 0};
  g_events.insert(*event);
  ++TheFakeCuda().live_events;
  return Done();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (g_events.erase(event) == 0) return Done(cudaErrorInvalidResourceHandle);
  delete event;
  --TheFakeCuda().live_events;
  return Done();
}
// In a capture, an event that is not external marks a dependency, and the graph has no node for it.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (!g_events.contains(event)) return Done(cudaErrorInvalidResourceHandle);
  const bool is_external = (flags & cudaEventRecordExternal) != 0;
  const bool is_captured = StreamOf(stream).captured != nullptr;
  if (is_external && !is_captured) return Done(cudaErrorIllegalState);
  if (is_captured && !is_external) return Done();
  return Enqueued(stream, {.type = cudaGraphNodeTypeEventRecord, .event = event});
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = IfSafe(); error != cudaSuccess) return Done(error);
  return ReadyAt(event->seconds);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  TheFakeCuda().blocking_waits += event->is_blocking ? 1 : 0;
  return Awaited(event->by_graph ? 0 : event->seconds);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (!event->is_timed || !event->is_recorded) return Done(cudaErrorInvalidResourceHandle);
    if (event->seconds > g_awaited) return Done(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(1e3 * (end->seconds - start->seconds));
  return Done();
}

// Captures and graphs.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (IsDefault(stream)) return Done(cudaErrorStreamCaptureUnsupported);
  if (StreamOf(stream).captured) return Done(cudaErrorIllegalState);
  StreamOf(stream).captured = std::make_unique<CUgraph_st>();
  StreamOf(stream).is_invalid = false;
  StreamOf(stream).mode = mode;
  StreamOf(stream).capturer = std::this_thread::get_id();
  g_capturing.insert(&StreamOf(stream));
  TheFakeCuda().capturing = g_capturing.size();
  return Done();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  CUstream_st& own = StreamOf(stream);
  *graph = nullptr;
  if (!own.captured) return Done(cudaErrorIllegalState);
  g_capturing.erase(&own);
  TheFakeCuda().capturing = g_capturing.size();
  std::unique_ptr<CUgraph_st> captured = std::move(own.captured);
  if (own.is_invalid) return Done(cudaErrorStreamCaptureInvalidated);
  *graph = captured.release();
  ++TheFakeCuda().live_graphs;
  return Done();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = !StreamOf(stream).captured    ? cudaStreamCaptureStatusNone
            : StreamOf(stream).is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return Done();
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t* count) {
  if (id != nullptr) *id = 1;
  if (graph != nullptr) *graph = StreamOf(stream).captured.get();
  if (count != nullptr) *count = 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(t_mode, *mode);
  return Done();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --TheFakeCuda().live_graphs;
  return Done();
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  *count = graph->nodes.size();
  if (nodes == nullptr) return Done();
  for (const auto& node : graph->nodes) *nodes++ = node.get();
  return Done();
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return Done();
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  *event = node->event;
  return Done();
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph};
  ++TheFakeCuda().live_graphs;
  return Done();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  --TheFakeCuda().live_graphs;
  return Done();
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  executable->events[node] = event;
  return Done();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++TheFakeCuda().graph_launches;
  for (const auto& node : executable->graph->nodes) {
    CUgraphNode_st launched = *node;
    if (const auto own = executable->events.find(node.get()); own != executable->events.end()) {
      launched.event = own->second;
    }
    if (launched.event != nullptr && !g_events.contains(launched.event)) return Done(cudaErrorInvalidResourceHandle);
    Execute(StreamOf(stream), launched, /*by_graph=*/true);
  }
  return Done();
}

// Kernels do nothing.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entry) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(entry));
  return cudaSuccess;
}
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  t_configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = t_configuration.grid;
  *block = t_configuration.block;
  *shared = t_configuration.shared;
  *static_cast<cudaStream_t*>(stream) = t_configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return Launched(stream);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return Launched(stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  return Launched(config->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->binaryVersion = attributes->ptxVersion = 90;
  attributes->maxThreadsPerBlock = 1024;
  return Done();
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return Done(); }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned int) {
  *blocks = 1;
  return Done();
}

}  // extern "C"
