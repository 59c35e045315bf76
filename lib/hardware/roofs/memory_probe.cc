// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/memory_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/hardware/cache_eviction.h"
#include "lib/hardware/device_facts.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::hardware {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr double kLeastBufferBytes = 64 << 20;
constexpr double kMostBufferBytes = 160 << 20;
// With buffers of this multiple of the caches, almost nothing survives a lap: reading four times the cache size
// repeatedly ran 12 % faster than sixteen times, eight times 2 to 6 % (EPYC, 32 MiB, 2026-11-20).
constexpr double kLapCaches = 16;
constexpr double kNoLessBytes = 1 << 20;  // however little memory is free
// Share of the available memory, for each of the two. A sixteenth of little memory would fit the last level, whose rate
// does not represent memory.
constexpr double kMostOfMemory = 1.0 / 4;
constexpr double kMostBursts = 1e4;
constexpr double kLeadShare = 0.2;  // of the traffic of a probe, at most

std::size_t WholeLines(double bytes) { return static_cast<std::size_t>(bytes / kLineBytes) * kLineBytes; }

std::size_t BufferBytes(double last_level_cache_bytes) {
  // Streams cycle through both buffers.
  double bytes = std::clamp(kLapCaches * last_level_cache_bytes / 2, kLeastBufferBytes, kMostBufferBytes);
  const double available = AvailableMemoryBytes();
  if (available > 0) bytes = std::clamp(available * kMostOfMemory, kNoLessBytes, bytes);
  return WholeLines(bytes);
}

// Bytes of memory that a stream occupies for each byte of its traffic.
double Footprint(StreamKind kind) { return kind == StreamKind::kUpdate ? 0.5 : 1; }

// A stream and the bytes that each thread covers.
struct Run {
  const StreamVariant* variant;
  std::size_t bytes;
};

// The streams of a mix, for this much traffic of a thread.
std::vector<Run> RunsOf(std::span<const StreamOfMix> mix, double traffic) {
  std::vector<Run> runs;
  for (const auto& [variant, share] : mix) {
    runs.push_back({variant, std::max(kLineBytes, WholeLines(share * traffic / StreamTraffic(variant->kind, 1)))});
  }
  return runs;
}

// Bytes of traffic of a thread.
double TrafficOf(const std::vector<Run>& runs) {
  double traffic = 0;
  for (const Run& run : runs) traffic += StreamTraffic(run.variant->kind, static_cast<double>(run.bytes));
  return traffic;
}

}  // namespace

MemoryProbe::MemoryProbe(double last_level_cache_bytes, int threads)
    : last_level_cache_bytes_(last_level_cache_bytes), threads_(threads) {}

void MemoryProbe::MakeBuffers() {
  if (first_.size() > 0) return;
  const std::size_t bytes = BufferBytes(last_level_cache_bytes_);
  first_ = HugeBuffer(bytes, threads_);
  second_ = HugeBuffer(bytes, threads_);
  evicts_ = kLapCaches * last_level_cache_bytes_ > 2 * static_cast<double>(bytes);
}

// Runs the streams of the mix one after another, without a barrier between them.
Rates MemoryProbe::RunFromCursor(std::span<const StreamOfMix> mix, double traffic_bytes, int threads) {
  const std::size_t lap = WholeLines(static_cast<double>(first_.size()) / threads);  // of one buffer
  const std::vector<Run> runs = RunsOf(mix, traffic_bytes / threads);
  std::size_t distance = 0;
  for (const Run& run : runs) distance += run.bytes;
  const std::size_t start = cursor_ % (2 * lap);
  cursor_ = (start + distance) % (2 * lap);
  if (evicts_) {
    kernels::ThreadPool(threads).OnEach([&](int thread) {
      const int64_t begin = ThreadsBytes(first_.size(), thread, threads).begin;
      for (std::size_t at = start, left = std::min(distance, 2 * lap); left > 0;) {
        const std::size_t offset = at % lap;
        const std::size_t bytes = std::min(left, lap - offset);
        for (const HugeBuffer* buffer : {&first_, &second_}) EvictLines({buffer->data() + begin + offset, bytes});
        at += bytes;
        left -= bytes;
      }
    });
  }
  return RunBurst(threads * TrafficOf(runs), threads, [&](int thread) {
    const int64_t begin = ThreadsBytes(first_.size(), thread, threads).begin;
    std::byte* const own[] = {first_.data() + begin, second_.data() + begin};
    std::size_t at = start;
    for (const Run& run : runs) {
      for (std::size_t left = run.bytes; left > 0;) {
        const std::size_t buffer = at / lap;
        const std::size_t offset = at % lap;
        const std::size_t bytes = std::min(left, lap - offset);
        run.variant->run(own[1 - buffer] + offset, own[buffer] + offset, bytes);
        at = (at + bytes) % (2 * lap);
        left -= bytes;
      }
    }
  });
}

double MemoryProbe::MostBurstTraffic() const {
  return evicts_ ? static_cast<double>(first_.size()) : std::numeric_limits<double>::infinity();
}

Rates MemoryProbe::MeasureMemory(std::span<const StreamOfMix> mix, double traffic_bytes, int bursts, int threads) {
  MakeBuffers();
  const double lead = std::min({last_level_cache_bytes_, kLeadShare * traffic_bytes, MostBurstTraffic()});
  RunFromCursor(mix, lead, threads);
  bursts = std::max(bursts, static_cast<int>(std::min(kMostBursts, std::ceil(traffic_bytes / MostBurstTraffic()))));
  return MedianOfBursts(bursts, [&] { return RunFromCursor(mix, (traffic_bytes - lead) / bursts, threads); });
}

double MemoryProbe::MeasureCache(std::span<const StreamOfMix> mix, double working_set_bytes, double seconds,
                                 int threads) {
  MakeBuffers();
  double footprint = 0;
  for (const auto& [variant, share] : mix) footprint += share * Footprint(variant->kind);
  // A pass touches each thread's share of the working set once.
  const double most = static_cast<double>(first_.size());
  const std::vector<Run> runs = RunsOf(mix, std::min(working_set_bytes, most) / footprint / threads);
  const double traffic = threads * TrafficOf(runs);
  const auto run = [&](int64_t passes) {
    return RunBurst(static_cast<double>(passes) * traffic, threads, [&](int thread) {
      const int64_t begin = ThreadsBytes(first_.size(), thread, threads).begin;
      for (int64_t pass = 0; pass < passes; ++pass) {
        int64_t at = begin;
        for (const auto& [variant, bytes] : runs) {
          variant->run(second_.data() + at, first_.data() + at, bytes);
          at += static_cast<int64_t>(bytes);
        }
      }
    });
  };
  run(1);  // loads the working set
  const int bursts = BurstsIn(seconds);
  // At most ten times as many passes as the previous attempt, until a burst is as long as wanted.
  int64_t passes = 1;
  int64_t wanted = 1;
  do {
    passes = wanted;
    wanted = std::clamp(static_cast<int64_t>(run(passes).cpu / traffic * seconds / bursts), int64_t{1}, 10 * passes);
  } while (wanted > 2 * passes);
  return MedianOfBursts(bursts, [&] { return run(wanted); }).wall;
}

}  // namespace roofbench::hardware
