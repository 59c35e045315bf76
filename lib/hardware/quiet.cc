// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/quiet.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "lib/hardware/device_facts.h"

namespace roofbench::hardware {
namespace {

constexpr double kQuiet = 0.03;  // below the share at which a case counts as noisy

}  // namespace

double OthersShare(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<ProcessorTime> before = ReadProcessorTime();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // this process is idle meanwhile
  const std::optional<ProcessorTime> after = ReadProcessorTime();
  // On a busy machine the sleep takes longer than requested.
  const double slept = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto processors = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (!before || !after || slept <= 0 || processors <= 0) return 0;
  const double taken = after->busy + after->stolen - before->busy - before->stolen;
  return std::clamp(taken / (processors * slept), 0.0, 1.0);
}

bool WaitUntilQuiet(double seconds, const std::function<double(double seconds)>& share) {
  for (int waited = 0; waited < seconds; ++waited) {
    if (share(1) < kQuiet) return true;
  }
  return false;
}

}  // namespace roofbench::hardware
