// SPDX-License-Identifier: Apache-2.0
// A recorded history of an allocator, and the blocks alive at its end. LibTorch's CPU allocator and its caching GPU
// allocator share the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench::observe {

// Named as in torch.cuda.memory's snapshots, in the order of LibTorch's enumeration.
enum class MemoryAction {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOutOfMemory
};
std::string_view Name(MemoryAction action);

// The current time on the clock of MemoryEvent::time_us: the system clock, which the GPU allocator uses, too.
int64_t MicrosecondsNow();

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t address = 0;
  uint64_t bytes = 0;
  int64_t time_us = 0;
  uint64_t stream = 0;
  std::string site = {};      // AllocationSites::Now(); empty if unknown
  std::string category = {};  // set for allocations by Categorize
};

// A piece of a segment.
struct MemoryBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t requested_bytes = 0;
  bool allocated = false;
  bool active = false;  // allocated, or freed while another stream may still read it
  std::string site = {};
};

// One contiguous region of the allocator. On a CPU: one allocation.
struct MemorySegment {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  bool is_large = true;
  std::vector<MemoryBlock> blocks = {};
};

// Events [begin, end) of a phase of a step.
struct MemoryPhase {
  std::string name;
  int step = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct MemoryHistory {
  std::vector<MemoryEvent> events = {};
  std::vector<MemorySegment> segments = {};  // at the end
  std::vector<MemoryPhase> phases = {};      // in order; events before the first phase built the case
  uint64_t dropped = 0;                      // events beyond the limit
};

// Drops allocations that begin and end before the first phase: temporary memory of building the case.
void ForgetBuildWork(MemoryHistory& history);

// Sets the category of each allocation from its site and lifetime:
//     before the first phase: parameters, optimizer state or kv cache in a range of that name, otherwise operands;
//     in a phase: workspace if it ends in that phase (except gradients that `zero_grad` ends); otherwise gradients in
//     the backward pass, optimizer state in the optimizer, and activations in any other phase.
// Blocks that are alive at the end and older than the history have no event and no category.
void Categorize(MemoryHistory& history);

// The largest number of bytes alive at once, including blocks older than the history.
uint64_t PeakBytes(const MemoryHistory& history);

// While it lives, it tracks ranges and operators of this thread and of the autograd threads that work for it.
// Construct and destroy it outside any range; one at a time.
class AllocationSites {
 public:
  AllocationSites();
  AllocationSites(const AllocationSites&) = delete;
  AllocationSites& operator=(const AllocationSites&) = delete;
  ~AllocationSites();

  // The open ranges except `step`, and the outermost operator: "forward/block 3/attention/aten::bmm". A backward
  // function is attributed to the part of the model that it differentiates: "backward/block 3/attention/BmmBackward0".
  // Empty where nothing is open.
  static std::string Now();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Records the CPU allocator. Calls must be serialized, as those of a PeakMemory listener are.
class HostHistory {
 public:
  explicit HostHistory(std::size_t most_events) : most_events_(most_events) {}

  // Adds an allocation, or with negative bytes a release, at the site AllocationSites::Now().
  void Report(const void* address, int64_t bytes);
  std::size_t size() const { return history_.events.size(); }

  // The history, with one segment for each block that is alive, by address. The caller adds the phases.
  MemoryHistory Finish();

 private:
  void Add(MemoryAction action, uint64_t address, uint64_t bytes);

  const std::size_t most_events_;
  MemoryHistory history_;
};

}  // namespace roofbench::observe
