// SPDX-License-Identifier: Apache-2.0
// Evicts operands from all caches, so that the next step reads them from memory.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/hardware/roofs/huge_buffer.h"
#include "lib/timing/clock.h"

namespace roofbench::hardware {

struct MemoryRange {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Evicts the lines of a range from the caches of all processors, by CLFLUSHOPT (CLFLUSH, DC CIVAC). The contents stay:
// modified lines are written back. The range must be mapped.
void EvictLines(MemoryRange range);

class CacheEvictor {
 public:
  CacheEvictor(double last_level_cache_bytes, int threads) : cache_bytes_(last_level_cache_bytes), threads_(threads) {}

  // Evicts the ranges; each thread of the pool takes its share of every range. Skips a range that is no longer mapped.
  // Returns the bytes that were evicted.
  std::size_t Evict(std::span<const MemoryRange> ranges) const;

  // Evicts the ranges, and estimates how many bytes of their modified lines the caches held: writing these back makes
  // an eviction slower than one of the same lines unmodified.
  double EvictAndEstimateModified(std::span<const MemoryRange> ranges);

  // Bytes of modified cache lines that a step leaves: the `written` bytes as far as they fit the cache, or none if it
  // bypasses the caches. Runs the step a few times. `prepare` precedes each, restores what the step changes and returns
  // its operands. 0 for steps so long that it does not matter.
  double ModifiedBytesOf(const std::function<void()>& step, const std::function<std::vector<MemoryRange>()>& prepare,
                         double written, timing::Clock& clock);

  // Evicts the ranges, and fills the room that they leave in the last-level cache with lines of other memory, because
  // in a long run the caches are full: reading into an empty one displaces nothing, which is up to a sixth faster.
  // `modified_bytes` of the new lines are modified. A step that leaves as many modified bytes then pays for writing
  // back what it displaces; into an empty cache it would write for free.
  // Returns the bytes of other memory in the new lines.
  std::size_t EvictAndRefill(std::span<const MemoryRange> ranges, double modified_bytes);

 private:
  // Allocates the scratch on first use. Returns the number of lines in each thread's share.
  std::size_t ScratchLines();
  // Calls `touch` with the next `bytes` of the scratch, a byte of each line, and returns how many bytes these were: no
  // more than the scratch has.
  template <typename Touch>
  std::size_t TouchScratch(double bytes, Touch touch);
  // Seconds per byte that writing a modified line back adds to its eviction; measured once.
  double WriteBackSeconds();

  double cache_bytes_;
  int threads_;
  HugeBuffer scratch_;
  std::size_t cursor_ = 0;  // lines into each thread's share of the scratch
  std::optional<double> write_back_seconds_;
};

}  // namespace roofbench::hardware
