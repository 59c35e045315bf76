// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gpu_memory_cuda.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <utility>

namespace roofbench {
namespace {

namespace caching = c10::CachingDeviceAllocator;
using c10::cuda::CUDACachingAllocator::recordHistory;
using observe::MemoryAction;

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

}  // namespace

void StartCudaMemoryHistory(std::string (*site)(), std::size_t most_events) {
  g_site = site;
  recordHistory(/*enabled=*/true, &Gather, most_events, caching::RecordContext::ALL, /*clearHistory=*/true, {});
}

observe::MemoryHistory FinishCudaMemoryHistory(int device) {
  const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot();
  recordHistory(/*enabled=*/false, nullptr, 1, caching::RecordContext::NEVER, /*clearHistory=*/true, {});
  g_site = nullptr;
  observe::MemoryHistory history;
  for (const caching::SegmentInfo& segment : snapshot.segments) {
    if (segment.device == device) history.segments.push_back(Read(segment));
  }
  if (static_cast<std::size_t>(device) >= snapshot.device_traces.size()) return history;
  for (const caching::TraceEntry& entry : snapshot.device_traces[static_cast<std::size_t>(device)]) {
    history.events.push_back({.action = static_cast<MemoryAction>(entry.action_),
                              .address = entry.addr_,
                              .bytes = entry.size_,
                              .time_us = static_cast<int64_t>(entry.time_.t_),
                              .stream = Number(entry.stream_),
                              .site = TextOf(entry.context_)});
  }
  return history;
}

}  // namespace roofbench
