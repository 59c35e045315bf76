// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/bursts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <utility>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

constexpr double kBurstSeconds = 0.002;
constexpr double kMostBursts = 1000;
constexpr std::size_t kLeastSteps = 5;  // so that two of them may be disturbed, unless two take longer than this:
constexpr double kLongest = 0.5;        // seconds
constexpr double kClockTick = 1e-9;     // the shortest time, so that no rate is infinite

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Rates RunBurst(double work, int threads, const std::function<void(int thread)>& body) {
  std::vector<double> cpu_seconds(static_cast<std::size_t>(threads));
  const double begin = WallSeconds();
  kernels::ThreadPool(threads).OnEach([&](int thread) {
    const double cpu_begin = ThreadCpuSeconds();
    body(thread);
    cpu_seconds[static_cast<std::size_t>(thread)] = ThreadCpuSeconds() - cpu_begin;
  });
  const double wall = WallSeconds() - begin;
  return {.wall = work / std::max(kClockTick, wall),
          .cpu = work / std::max(kClockTick, *std::ranges::max_element(cpu_seconds))};
}

int BurstsIn(double seconds) {
  return static_cast<int>(std::clamp(std::round(seconds / kBurstSeconds), 1.0, kMostBursts));
}

Rates MedianOfBursts(int bursts, const std::function<Rates()>& run_burst) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int burst = 0; burst < bursts; ++burst) {
    const Rates rates = run_burst();
    wall.push_back(rates.wall);
    cpu.push_back(rates.cpu);
  }
  return {.wall = timing::Median(wall), .cpu = timing::Median(cpu)};
}

ComputeProbe MedianOfSteps(double work, std::function<void()> step, std::function<double()> now) {
  return [work, step = std::move(step), now = std::move(now)](double seconds) {
    std::vector<double> steps;
    const double begin = now();
    double end = begin;
    do {
      const double step_begin = end;
      step();
      end = now();
      steps.push_back(end - step_begin);
    } while (end - begin < seconds || steps.size() < 2 ||
             (steps.size() < kLeastSteps && std::ranges::min(steps) < kLongest));
    return work / std::max(kClockTick, timing::Median(steps));
  };
}

}  // namespace roofbench::hardware
