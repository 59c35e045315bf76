// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/conditions/handover.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 8;  // between two looks at the clock
constexpr std::size_t kMostBatches = 16;
constexpr std::size_t kLeastBatches = 4;  // of which the first wakes the threads
constexpr std::chrono::milliseconds kMost{2};
// Measured were 27 to 70 ns near each other and 195 to 280 apart.
constexpr double kMoved = 2.6;

// The round that may begin; on lines that are not fetched together.
struct alignas(128) Turn {
  std::atomic<int64_t> round = 0;
};

struct Ring {
  explicit Ring(int threads) : turns(static_cast<std::size_t>(threads)) {}

  alignas(128) std::atomic<bool> ended = false;
  std::vector<Turn> turns;

  Turn& After(int index) { return turns[(static_cast<std::size_t>(index) + 1) % turns.size()]; }
};

void Give(Turn& next, int64_t round) { next.round.store(round, std::memory_order_release); }
bool Has(const Turn& own, int64_t round) { return own.round.load(std::memory_order_acquire) >= round; }

// Whether the turn comes around before `until`.
bool Await(const Turn& own, int64_t round, Clock::time_point until) {
  constexpr int kPolls = 1024;  // between two looks at the clock
  for (;;) {
    for (int polls = 0; polls < kPolls; ++polls) {
      if (Has(own, round)) return true;
      kernels::Pause();
    }
    if (Clock::now() > until) return false;
  }
}

// Gives turns away and waits for them to come around; the seconds of a handover, batch by batch. Gives up where one of
// the threads does not run: it does another's part first, or another program has its processor.
std::vector<double> Time(Ring& ring) {
  std::vector<double> seconds;
  const Clock::time_point until = Clock::now() + kMost;
  int64_t round = 0;
  const auto goes_around = [&] {
    Give(ring.After(0), ++round);
    return Await(ring.turns[0], round, until);
  };
  while (seconds.size() < kMostBatches) {
    const Clock::time_point begin = Clock::now();
    bool whole = true;
    for (int i = 0; whole && i < kRounds; ++i) whole = goes_around();
    const Clock::time_point end = Clock::now();
    if (!whole) break;
    seconds.push_back(std::chrono::duration<double>(end - begin).count() / kRounds /
                      static_cast<double>(ring.turns.size()));
    if (end > until) break;
  }
  ring.ended = true;
  return seconds;
}

void TakePart(Ring& ring, int index) {
  const Turn& own = ring.turns[static_cast<std::size_t>(index)];
  for (int64_t round = 1;; ++round) {
    while (!Has(own, round)) {
      if (ring.ended.load(std::memory_order_relaxed)) return;
      kernels::Pause();
    }
    Give(ring.After(index), round);
  }
}

}  // namespace

std::optional<double> HandoverSeconds(int threads) {
  if (threads < 2 || threads > kernels::Processors()) return std::nullopt;
  Ring ring(threads);
  std::vector<double> seconds;
  kernels::ThreadPool(threads).OnEach([&](int index) {
    if (index == 0) {
      seconds = Time(ring);
    } else {
      TakePart(ring, index);
    }
  });
  if (seconds.size() < kLeastBatches) return std::nullopt;
  seconds.erase(seconds.begin());
  return timing::Median(seconds);
}

bool AreOfTwoPlaces(double one, double other) {
  const auto [near, far] = std::minmax(one, other);
  return far > kMoved * near;
}

}  // namespace roofbench::hardware
