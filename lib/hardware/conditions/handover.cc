// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/conditions/handover.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int kRounds = 8;  // between two looks at the clock
constexpr std::size_t kMostBatches = 16;
constexpr std::size_t kLeastBatches = 4;  // of which the first wakes the threads
constexpr std::chrono::milliseconds kMost{2};
// Measured were 27 to 70 ns near each other and 195 to 280 apart.
constexpr double kMoved = 2.6;

// The round that may begin; on lines that are not fetched together.
struct alignas(128) Turn {
  std::atomic<int64_t> round = 0;

  int64_t Await(int64_t wanted) const {
    for (;;) {
      const int64_t now = round.load(std::memory_order_acquire);
      if (now >= wanted) return now;
      kernels::Pause();
    }
  }
  void Give(int64_t now) { round.store(now, std::memory_order_release); }
};

// Gives turns away and waits for them to come around; returns the seconds of a handover, batch by batch.
std::vector<double> Time(const Turn& own, Turn& next, int threads) {
  std::vector<double> seconds;
  const Clock::time_point start = Clock::now();
  int64_t round = 0;
  while (seconds.size() < kMostBatches) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kRounds; ++i) {
      next.Give(++round);
      own.Await(round);
    }
    const Clock::time_point end = Clock::now();
    seconds.push_back(std::chrono::duration<double>(end - begin).count() / kRounds / threads);
    if (end - start > kMost) break;
  }
  next.Give(kEnd);
  own.Await(kEnd);
  return seconds;
}

}  // namespace

std::optional<double> HandoverSeconds(int threads) {
  if (threads < 2 || threads > kernels::Processors()) return std::nullopt;
  std::vector<Turn> turns(static_cast<std::size_t>(threads));
  std::vector<double> seconds;
  kernels::ThreadPool(threads).Region([&](const kernels::Worker& worker) {
    if (worker.threads() < 2) return;
    const auto place = [&](int index) -> Turn& { return turns[static_cast<std::size_t>(index % worker.threads())]; };
    const Turn& own = place(worker.index());
    Turn& next = place(worker.index() + 1);
    if (worker.index() == 0) {
      seconds = Time(own, next, worker.threads());
      return;
    }
    for (int64_t round = 0; round != kEnd;) {
      round = own.Await(round + 1);
      next.Give(round);
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
