// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/measured_choice.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

namespace roofbench {

MeasuredChoice* MeasuredChoice::OfProcess() {
#if ROOFBENCH_EMULATE_TILES
  return nullptr;
#else
  static MeasuredChoice choice;
  return &choice;
#endif
}

bool MeasuredChoice::TakesOurs(ShapeClass shape, Function ours, Function library) {
  constexpr int kRuns = 3;
  shape.rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shape.rows)));
  const std::scoped_lock lock(mutex_);
  if (const auto known = takes_ours_.find(shape); known != takes_ours_.end()) return known->second;
  // The first runs allocate, and load the code.
  ours();
  library();
  // In turns, so that both meet the same clock rates; the least, because a disturbance only adds time.
  double ours_seconds = std::numeric_limits<double>::infinity();
  double library_seconds = ours_seconds;
  for (int run = 0; run < kRuns; ++run) {
    ours_seconds = std::min(ours_seconds, timer_(ours));
    library_seconds = std::min(library_seconds, timer_(library));
  }
  return takes_ours_[shape] = ours_seconds <= library_seconds;
}

double MeasuredChoice::WallSeconds(Function run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace roofbench
