// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/resting_threads.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "lib/hardware/threads.h"

namespace roofbench::hardware {
namespace {

// A pool that rests within this time costs a probe its first burst at most, which its median ignores.
constexpr double kSoon = 0.003;
constexpr double kPause = 0.0005;
constexpr double kLongest = 0.1;

}  // namespace

void SleepSeconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

bool OthersRun(std::span<const pid_t> known) {
  return std::ranges::any_of(Threads(), [&](pid_t thread) {
    return thread != gettid() && std::ranges::find(known, thread) == known.end() && IsAtWork(thread);
  });
}

bool AwaitRest(const Watched& watched) {
  const double start = watched.now();
  while (watched.others_run()) {
    if (watched.now() - start >= kLongest) return false;
    watched.sleep(kPause);
  }
  return true;
}

timing::RoofProbe OnceThreadsRest(timing::RoofProbe probe, Watched watched) {
  return
      [probe = std::move(probe), watched = std::move(watched), spins = std::optional<bool>()](double seconds) mutable {
        if (!spins) {
          watched.sleep(kSoon);
          spins = watched.others_run();
        }
        if (*spins) spins = AwaitRest(watched);
        return probe(seconds);
      };
}

}  // namespace roofbench::hardware
