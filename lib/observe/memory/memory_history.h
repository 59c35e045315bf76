// SPDX-License-Identifier: Apache-2.0
// What an allocator did in a while, and what is alive at its end: the same for LibTorch's allocator of the CPU and its
// caching allocator of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench::observe {

// The names are those of torch.cuda.memory's snapshots, in the order of LibTorch's enumeration.
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

// Now, by the clock of MemoryEvent::time_us: the system's, since the epoch, which a GPU's allocator writes down.
int64_t MicrosecondsNow();

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t address = 0;
  uint64_t bytes = 0;
  int64_t time_us = 0;
  uint64_t stream = 0;
  std::string site = {};      // who asked: "forward/block 3/attention/aten::bmm"; empty: not known
  std::string category = {};  // of an allocation, by Categorise
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

// What the allocator holds in one piece; of a CPU: one allocation.
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
  std::vector<MemoryPhase> phases = {};      // in their order; what comes before the first built the case
  uint64_t dropped = 0;                      // events that were too many to keep
};

// Drops what began and ended before the first phase: work of building the case.
void ForgetBuildWork(MemoryHistory& history);

// Says of each allocation what it is for, by where it was made and how long it lived:
//   before the first phase: parameters, optimizer state or kv cache in a range of that name, else operands;
//   in a phase: workspace if it ends in that phase, but for gradients that the optimizer's `zero_grad` ends; else
//   gradients of the backward pass, optimizer state of the optimizer, and activations of any other.
// What is alive at the end and older than the history has no event and no category.
void Categorise(MemoryHistory& history);

// The largest number of bytes alive at once, those that were alive before the history included.
uint64_t PeakBytes(const MemoryHistory& history);

}  // namespace roofbench::observe
