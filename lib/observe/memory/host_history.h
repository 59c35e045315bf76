// SPDX-License-Identifier: Apache-2.0
// The history of LibTorch's allocator of the CPU, from what it reports.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/observe/memory/memory_history.h"

namespace roofbench::observe {

// Calls are one after another, as those of a PeakMemory's listener are.
class HostHistory {
 public:
  explicit HostHistory(std::size_t most_events) : most_events_(most_events) {}

  // An allocation, or with negative bytes its end, at the site that AllocationSites knows.
  void Report(const void* address, int64_t bytes);
  std::size_t size() const { return history_.events.size(); }

  // With what is alive as segments, one each, by address; the phases are left to the caller.
  MemoryHistory Finish();

 private:
  void Add(MemoryAction action, uint64_t address, uint64_t bytes);

  const std::size_t most_events_;
  MemoryHistory history_;
};

}  // namespace roofbench::observe
