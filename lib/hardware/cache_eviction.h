// SPDX-License-Identifier: Apache-2.0
// Puts operands out of all caches without touching other memory, so that the next step reads them from memory.
#pragma once

#include <cstddef>
#include <optional>
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

  // Evicts the ranges, and estimates how many bytes of modified lines of them the caches held: writing these back makes
  // an eviction slower than one of the same lines unmodified.
  double EvictAndEstimateModified(std::span<const MemoryRange> ranges);

  // Fills the room that evicted lines left with `bytes` of modified lines of other memory. A step that leaves so much
  // behind then pays for writing as many lines back, as it does in a long run, where the caches hold what earlier steps
  // wrote: into an empty cache it would write for free.
  void FillWithModifiedLines(double bytes);

 private:
  // Forms the scratch when it is first needed. Lines that every thread has of it.
  std::size_t ScratchLines();
  // What writing a modified line back adds to its eviction, a byte; measured once.
  double WriteBackSeconds();

  double cache_bytes_;
  int threads_;
  HugeBuffer scratch_;
  std::size_t cursor_ = 0;  // lines into what every thread has of the scratch
  std::optional<double> write_back_seconds_;
};

}  // namespace roofbench::hardware
