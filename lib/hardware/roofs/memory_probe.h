// SPDX-License-Identifier: Apache-2.0
// Traffic of one or several streams through probe buffers: cold, from memory, or inside a cache.
#pragma once

#include <cstddef>
#include <span>

#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/huge_buffer.h"
#include "lib/hardware/roofs/streams.h"

namespace roofbench::hardware {

// A stream of a mix, and its share of the traffic. The shares of a mix add up to 1.
struct StreamOfMix {
  const StreamVariant* variant = nullptr;
  double share = 0;
};

class MemoryProbe {
 public:
  // Allocates its two buffers on first use, touched by a pool of `threads`: sixteen times the caches in all, so that
  // almost nothing survives in them from one lap to the next, but at most 320 MiB. Beyond that, the lines that a burst
  // is about to touch are evicted from the caches before it.
  MemoryProbe(double last_level_cache_bytes, int threads);

  // Bytes/s of about `traffic_bytes` of traffic from memory on a pool of `threads`: the median over `bursts` equal
  // ones. Continues in the buffers where the last call stopped, so that it finds them cold. The first part of the
  // traffic is not timed: it wakes the threads and brings the caches to the state that these streams leave, whatever
  // ran before.
  Rates MeasureMemory(std::span<const StreamOfMix> mix, double traffic_bytes, int bursts, int threads);

  // Bytes that MeasureCache can cycle through.
  double MostWorkingSet();

  // Bytes/s for about `seconds`, every thread cycling through its own share of a working set of that many bytes in all:
  // at least four laps, of which the first three are not timed.
  double MeasureCache(std::span<const StreamOfMix> mix, double working_set_bytes, double seconds, int threads);

 private:
  void MakeBuffers();
  // Bytes of one buffer that are a thread's own.
  std::size_t OwnBytes(int threads) const;
  Rates RunFromCursor(std::span<const StreamOfMix> mix, double traffic_bytes, int threads);
  // Bytes of traffic that a burst may have, so that it covers at most half a lap.
  double MostBurstTraffic() const;

  double last_level_cache_bytes_;
  int threads_;
  bool evicts_ = false;
  HugeBuffer first_;  // streams read one and write the other, and swap them after each lap
  HugeBuffer second_;
  std::size_t cursor_ = 0;  // bytes into each thread's share of the two
};

}  // namespace roofbench::hardware
