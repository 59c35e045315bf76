#include "lib/hardware/pieces.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <vector>

#include "lib/hardware/thread_team.h"

namespace roofbench::hardware {
namespace {

constexpr double kPieceSeconds = 0.002;
constexpr double kMostPieces = 1000;
constexpr double kClockTick = 1e-9;  // no time is shorter, so that no rate is infinite

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Rates RunPiece(double work, int threads, const std::function<void(int thread)>& body) {
  std::vector<double> cpu_seconds(static_cast<std::size_t>(threads));
  const double begin = WallSeconds();
  RunOnTeam(threads, [&](int thread) {
    const double cpu_begin = ThreadCpuSeconds();
    body(thread);
    cpu_seconds[static_cast<std::size_t>(thread)] = ThreadCpuSeconds() - cpu_begin;
  });
  const double wall = WallSeconds() - begin;
  return {.wall = work / std::max(kClockTick, wall),
          .cpu = work / std::max(kClockTick, *std::ranges::max_element(cpu_seconds))};
}

int PiecesIn(double seconds) {
  return static_cast<int>(std::clamp(std::round(seconds / kPieceSeconds), 1.0, kMostPieces));
}

Rates MedianOfPieces(int pieces, const std::function<Rates()>& run_piece) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int piece = 0; piece < pieces; ++piece) {
    const Rates rates = run_piece();
    wall.push_back(rates.wall);
    cpu.push_back(rates.cpu);
  }
  return {.wall = Median(std::move(wall)), .cpu = Median(std::move(cpu))};
}

}  // namespace roofbench::hardware
