// SPDX-License-Identifier: Apache-2.0
// The CUDA side of lib/device/gpu.h, which the module exports.

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "lib/device/gpu.h"
#include "lib/device/gpu_graph_cuda.h"
#include "lib/hardware/roofs/gpu_streams_cuda.h"
#include "lib/timing/event_queue_cuda.h"
#include "lib/timing/spin_cuda.h"

namespace roofbench {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
namespace caching = c10::CachingDeviceAllocator;
using observe::MemoryAction;
using timing::CheckCuda;

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

// LibTorch's enumerators have the same numbers as ours.
using Action = caching::TraceEntry::Action;
static_assert(Action::ALLOC == static_cast<int>(MemoryAction::kAlloc));
static_assert(Action::FREE_COMPLETED == static_cast<int>(MemoryAction::kFreeCompleted));
static_assert(Action::SEGMENT_UNMAP == static_cast<int>(MemoryAction::kSegmentUnmap));
static_assert(Action::OOM == static_cast<int>(MemoryAction::kOutOfMemory));

// The allocator takes a plain function, which cannot capture.
std::string (*g_site)() = nullptr;

struct Site final : c10::GatheredContext {
  explicit Site(std::string at) : text(std::move(at)) {}
  const std::string text;
};

std::shared_ptr<c10::GatheredContext> Gather() {
  return g_site == nullptr ? nullptr : std::make_shared<Site>(g_site());
}

std::string TextOf(const std::shared_ptr<c10::GatheredContext>& context) {
  const auto* const site = dynamic_cast<const Site*>(context.get());
  return site == nullptr ? "" : site->text;
}

uint64_t Number(const void* stream) { return reinterpret_cast<uint64_t>(stream); }

observe::MemorySegment Read(const caching::SegmentInfo& segment) {
  observe::MemorySegment read{.address = segment.address,
                              .bytes = segment.total_size,
                              .stream = Number(segment.stream),
                              .is_large = segment.is_large};
  uint64_t address = segment.address;
  for (const caching::BlockInfo& block : segment.blocks) {
    read.blocks.push_back({.address = address,
                           .bytes = block.size,
                           .requested_bytes = block.requested_size,
                           .allocated = block.allocated,
                           .active = block.active,
                           .site = TextOf(block.context_when_allocated)});
    address += block.size;
  }
  return read;
}

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
    const c10::cuda::CUDAGuard guard(device());
    std::size_t free = 0;
    std::size_t total = 0;
    CheckCuda(cudaMemGetInfo(&free, &total), "the free memory of the GPU is unknown");
    const auto stats = allocator::getDeviceStats(device());
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto held = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
    return static_cast<double>(free) + static_cast<double>(held);
  }
  void EmptyCache() override { allocator::emptyCache(); }
  double PeakBytes() const override {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<double>(allocator::getDeviceStats(device()).allocated_bytes[kAll].peak);
  }
  void ResetPeak() override { allocator::resetPeakStats(device()); }
  double GraphBytes() const override {
    std::size_t bytes = 0;
    for (const auto& segment : allocator::snapshot({0, 0}, /*include_traces=*/false).segments) {
      const bool is_private = segment.owner_private_pool_id != c10::MempoolId_t{0, 0};
      if (is_private && segment.device == device()) bytes += segment.total_size - segment.allocated_size;
    }
    return static_cast<double>(bytes);
  }
  void StartMemoryHistory(std::string (*site)(), std::size_t most_events) override {
    g_site = site;
    allocator::recordHistory(/*enabled=*/true, &Gather, most_events, caching::RecordContext::ALL, /*clearHistory=*/true,
                             {});
  }
  observe::MemoryHistory FinishMemoryHistory() override {
    const auto snapshot = allocator::snapshot();
    allocator::recordHistory(/*enabled=*/false, nullptr, 1, caching::RecordContext::NEVER, /*clearHistory=*/true, {});
    g_site = nullptr;
    observe::MemoryHistory history;
    for (const caching::SegmentInfo& segment : snapshot.segments) {
      if (segment.device == device()) history.segments.push_back(Read(segment));
    }
    const auto index = static_cast<std::size_t>(facts_.index);
    if (index >= snapshot.device_traces.size()) return history;
    for (const caching::TraceEntry& entry : snapshot.device_traces[index]) {
      history.events.push_back({.action = static_cast<MemoryAction>(entry.action_),
                                .address = entry.addr_,
                                .bytes = entry.size_,
                                .time_us = static_cast<int64_t>(entry.time_.t_),
                                .stream = Number(entry.stream_),
                                .site = TextOf(entry.context_)});
    }
    return history;
  }
  void Synchronize() override { CheckCuda(cudaDeviceSynchronize(), "the GPU stopped in a step"); }

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
  std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) override { return RecordCudaGraph(enqueue); }
  void* Stream() const override { return CurrentStream(); }
  // The module that contains this function was opened with its symbols visible to the whole process.
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
