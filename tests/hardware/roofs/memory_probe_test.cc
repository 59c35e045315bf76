// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/memory_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/hardware/device_facts.h"

namespace roofbench::hardware {
namespace {

// Streams that only record the requests.
struct Call {
  StreamKind kind;
  const std::byte* to;
  const std::byte* from;
  std::size_t bytes;
  std::thread::id thread;
};
std::mutex g_mutex;
std::vector<Call> g_calls;

template <StreamKind kKind>
uint64_t Note(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  g_calls.push_back({kKind, to, from, bytes, std::this_thread::get_id()});
  return 0;
}

constexpr StreamVariant kRead = {StreamKind::kRead, "noted", Note<StreamKind::kRead>};
constexpr StreamVariant kCopy = {StreamKind::kCopy, "noted", Note<StreamKind::kCopy>};
constexpr StreamVariant kUpdate = {StreamKind::kUpdate, "noted", Note<StreamKind::kUpdate>};

constexpr double kMebi = 1 << 20;
constexpr double kCache = 2 * kMebi;
constexpr std::size_t kLeastBuffer = std::size_t{64} << 20;

class MemoryProbeTest : public testing::Test {
 protected:
  MemoryProbeTest() { g_calls.clear(); }

  static double Bytes(StreamKind kind) {
    double bytes = 0;
    for (const Call& call : g_calls) {
      if (call.kind == kind) bytes += static_cast<double>(call.bytes);
    }
    return bytes;
  }
};

// The lead-in is as large as the cache, but at most a fifth of the probe.
TEST_F(MemoryProbeTest, ALeadInPrecedesEqualBursts) {
  for (const auto& [traffic, bursts, lead, burst] : {std::tuple{12, 5, 2, 2}, {5, 1, 1, 4}}) {
    g_calls.clear();
    MemoryProbe probe(kCache, 1);
    const StreamOfMix mix[] = {{&kRead, 1}};
    probe.MeasureMemory(mix, traffic * kMebi, bursts, 1);
    ASSERT_EQ(g_calls.size(), 1 + bursts);
    for (const Call& call : g_calls) EXPECT_EQ(call.bytes, (&call == &g_calls[0] ? lead : burst) * kMebi);
  }
}

TEST_F(MemoryProbeTest, SharesAreOfTheTraffic) {
  MemoryProbe probe(kCache, 2);
  const StreamOfMix mix[] = {{&kRead, 0.5}, {&kCopy, 0.25}, {&kUpdate, 0.25}};
  probe.MeasureMemory(mix, 16 * kMebi, 4, 2);
  EXPECT_DOUBLE_EQ(Bytes(StreamKind::kRead), 8 * kMebi);
  EXPECT_DOUBLE_EQ(Bytes(StreamKind::kCopy), 2 * kMebi);    // 4 MiB of traffic, to and fro
  EXPECT_DOUBLE_EQ(Bytes(StreamKind::kUpdate), 2 * kMebi);  // the same
}

std::atomic<int> g_runs;

// As if the scheduler had suspended the thread during the third of the bursts.
uint64_t TakenAwayOnce(std::byte* /*to*/, const std::byte* /*from*/, std::size_t /*bytes*/) {
  constexpr int kLeadIn = 1;
  if (g_runs++ == kLeadIn + 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return 0;
}

TEST_F(MemoryProbeTest, AThreadThatWasTakenAwayDoesNotLowerTheRoof) {
  constexpr StreamVariant kDisturbed = {StreamKind::kRead, "taken away", TakenAwayOnce};
  g_runs = 0;
  MemoryProbe probe(kCache, 1);
  const StreamOfMix mix[] = {{&kDisturbed, 1}};
  const Rates rates = probe.MeasureMemory(mix, 12 * kMebi, 5, 1);
  ASSERT_EQ(g_runs, 6);
  EXPECT_GT(rates.wall, 10 * kMebi / 0.2) << "all of the traffic over all of the time";
}

// Each thread goes through its share of one buffer, then of the other, then again, wherever probes end: the data
// that it reads next was last touched a lap of both buffers ago.
TEST_F(MemoryProbeTest, ContinuesWhereItStopped) {
  for (const int threads : {1, 2}) {
    g_calls.clear();
    MemoryProbe probe(kCache, threads);
    const StreamOfMix mix[] = {{&kRead, 0.5}, {&kCopy, 0.5}};
    for (int i = 0; i < 15; ++i) probe.MeasureMemory(mix, 21.3 * kMebi, 3, threads);
    std::map<std::thread::id, std::vector<Call>> by_thread;
    for (const Call& call : g_calls) by_thread[call.thread].push_back(call);
    ASSERT_EQ(by_thread.size(), static_cast<std::size_t>(threads));
    for (const auto& [thread, calls] : by_thread) {
      std::vector<const std::byte*> starts;  // of laps
      std::size_t length = 0;                // of the lap so far
      const Call* previous = nullptr;
      for (const Call& call : calls) {
        EXPECT_NE(call.from, call.to);
        if (previous == nullptr || call.from != previous->from + previous->bytes) {
          if (previous != nullptr) {
            EXPECT_EQ(length, kLeastBuffer / static_cast<std::size_t>(threads));
            EXPECT_EQ(call.to, starts.back());
          }
          starts.push_back(call.from);
          length = 0;
        }
        length += call.bytes;
        previous = &call;
      }
      ASSERT_GE(starts.size(), 3);
      EXPECT_NE(starts[1], starts[0]);
      for (std::size_t lap = 2; lap < starts.size(); ++lap) EXPECT_EQ(starts[lap], starts[lap - 2]);
    }
  }
}

TEST_F(MemoryProbeTest, EveryThreadKeepsToItsShareOfTheWorkingSet) {
  MemoryProbe probe(kCache, 2);
  const StreamOfMix mix[] = {{&kRead, 0.5}, {&kUpdate, 0.5}};
  constexpr double kWorkingSet = 3 * kMebi;
  probe.MeasureCache(mix, kWorkingSet, 1e-5, 2);
  // Half of the traffic reads, half updates; an update moves each byte twice, so it needs half the memory.
  std::map<const std::byte*, std::size_t> ranges;
  for (const Call& call : g_calls) {
    const auto [range, fresh] = ranges.emplace(call.from, call.bytes);  // in either buffer, streams do not overlap
    EXPECT_EQ(range->second, call.bytes);
    EXPECT_EQ(call.bytes, (call.kind == StreamKind::kRead ? 1 : 0.5) * kMebi);
  }
  EXPECT_EQ(ranges.size(), 4);
}

// A set that is larger than one buffer continues in the other.
TEST_F(MemoryProbeTest, AWorkingSetMayBeAsLargeAsBothBuffers) {
  MemoryProbe probe(kCache, 1);
  const StreamOfMix mix[] = {{&kRead, 1}};
  const auto covered = [&](double working_set) {
    g_calls.clear();
    probe.MeasureCache(mix, working_set, 1e-5, 1);
    std::map<const std::byte*, std::size_t> ranges;
    for (const Call& call : g_calls) ranges[call.from] = std::max(ranges[call.from], call.bytes);
    double bytes = 0;
    for (const auto& [from, length] : ranges) bytes += static_cast<double>(length);
    return bytes;
  };
  EXPECT_EQ(probe.MostWorkingSet(), 2.0 * kLeastBuffer);
  EXPECT_EQ(covered(100 * kMebi), 100 * kMebi);
  EXPECT_EQ(covered(200 * kMebi), 2.0 * kLeastBuffer);
}

// Each of the two exceeds the caches eightfold, but a cache of hundreds of megabytes does not set the memory needed.
TEST_F(MemoryProbeTest, BuffersExceedTheCachesWithinALimit) {
  if (AvailableMemoryBytes() / 4 < 160 * kMebi) GTEST_SKIP() << "a quarter of the free memory is less than 160 MiB";
  for (const auto& [cache, buffer] : {std::pair{15, 120}, {480, 160}}) {
    g_calls.clear();
    MemoryProbe probe(cache * kMebi, 1);
    const StreamOfMix mix[] = {{&kRead, 1}};
    probe.MeasureMemory(mix, 2000 * kMebi, 1, 1);
    std::size_t largest = 0;
    for (const Call& call : g_calls) largest = std::max(largest, call.bytes);
    EXPECT_EQ(largest, buffer * kMebi) << "from one end to the other";
  }
}

}  // namespace
}  // namespace roofbench::hardware
