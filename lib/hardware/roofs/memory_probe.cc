// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/memory_probe.h"

#include <algorithm>
#include <array>
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
// A last level that takes what leaves the second one may admit a line only when it returns again. Reading 32 to 64 MiB
// over and over ran at 24, 25, 35 and then 38 GB/s (4th generation of Xeon, 2026-11-28).
constexpr int64_t kLeadLaps = 3;
constexpr double kLeadShare = 0.2;  // of the traffic of a probe, at most

std::size_t WholeLines(double bytes) { return static_cast<std::size_t>(bytes / kLineBytes) * kLineBytes; }

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

// Runs the streams one after another, from `start` bytes into a thread's own bytes of the two buffers: `lap` bytes of
// the one, then of the other, then of the first again. They read the one and write the other.
void Walk(std::span<const Run> runs, const std::array<std::byte*, 2>& own, std::size_t lap, std::size_t start) {
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
}

}  // namespace

MemoryProbe::MemoryProbe(double last_level_cache_bytes, int threads)
    : last_level_cache_bytes_(last_level_cache_bytes), threads_(threads) {}

void MemoryProbe::MakeBuffers() {
  if (first_.size() > 0) return;
  // Streams cycle through both buffers.
  double bytes = std::clamp(kLapCaches * last_level_cache_bytes_ / 2, kLeastBufferBytes, kMostBufferBytes);
  const double available = AvailableMemoryBytes();
  if (available > 0) bytes = std::clamp(available * kMostOfMemory, kNoLessBytes, bytes);
  first_ = HugeBuffer(WholeLines(bytes), threads_);
  second_ = HugeBuffer(WholeLines(bytes), threads_);
  evicts_ = kLapCaches * last_level_cache_bytes_ > 2 * static_cast<double>(first_.size());
}

double MemoryProbe::MostWorkingSet() {
  MakeBuffers();
  return static_cast<double>(first_.size() + second_.size());
}

std::size_t MemoryProbe::OwnBytes(int threads) const {
  return WholeLines(static_cast<double>(first_.size()) / threads);
}

// Runs the streams of the mix one after another, without a barrier between them.
Rates MemoryProbe::RunFromCursor(std::span<const StreamOfMix> mix, double traffic_bytes, int threads) {
  const std::size_t lap = OwnBytes(threads);
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
    Walk(runs, {{first_.data() + begin, second_.data() + begin}}, lap, start);
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
  const std::vector<Run> runs = RunsOf(mix, std::min(working_set_bytes, MostWorkingSet()) / footprint / threads);
  const double traffic = threads * TrafficOf(runs);
  const auto run = [&](int64_t passes) {
    return RunBurst(static_cast<double>(passes) * traffic, threads, [&](int thread) {
      const int64_t begin = ThreadsBytes(first_.size(), thread, threads).begin;
      for (int64_t pass = 0; pass < passes; ++pass) {
        Walk(runs, {{first_.data() + begin, second_.data() + begin}}, OwnBytes(threads), 0);
      }
    });
  };
  run(kLeadLaps);
  int bursts = BurstsIn(seconds);
  // At most ten times as many passes as the previous attempt, until a burst is as long as wanted.
  int64_t passes = 1;
  int64_t wanted = 1;
  Rates rates;
  do {
    passes = wanted;
    rates = run(passes);
    wanted = std::clamp(static_cast<int64_t>(rates.cpu / traffic * seconds / bursts), int64_t{1}, 10 * passes);
  } while (wanted > 2 * passes);
  // A pass that is longer than a burst: as many of them as the time allows, of which one has run.
  if (wanted == 1) bursts = static_cast<int>(std::clamp(rates.cpu / traffic * seconds - 1, 0.0, 1.0 * bursts));
  return bursts == 0 ? rates.wall : MedianOfBursts(bursts, [&] { return run(wanted); }).wall;
}

}  // namespace roofbench::hardware
