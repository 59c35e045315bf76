// SPDX-License-Identifier: Apache-2.0
// Puts operands out of all caches without touching other memory, so that the next step reads them from memory.
#pragma once

#include <cstddef>
#include <span>

#include "lib/hardware/roofs/huge_buffer.h"

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

  // Evicts the ranges, each thread of the pool its share of every one. A range that is not mapped any more is left out.
  // Returns the bytes that were evicted.
  std::size_t Evict(std::span<const MemoryRange> ranges) const;

  // Fills the room that evicted lines left with `bytes` of modified lines of other memory. A step that writes that much
  // then pays for writing as many lines back, as it does in a long run, where a cache holds what earlier steps wrote:
  // into an empty cache a step would write for free.
  void FillWithModifiedLines(double bytes);

 private:
  double cache_bytes_;
  int threads_;
  HugeBuffer scratch_;
  std::size_t cursor_ = 0;  // lines into what every thread has of the scratch
};

}  // namespace roofbench::hardware
