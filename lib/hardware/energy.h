// SPDX-License-Identifier: Apache-2.0
// Joules that the processors have used, where the machine counts them (RAPL: https://docs.kernel.org/power/powercap).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/hardware/system_tree.h"

namespace roofbench::hardware {

// Sums all packages and every program on them, plus memory where it is counted separately.
class EnergyCounter {
 public:
  // `root` replaces "/" for tests.
  explicit EnergyCounter(const std::string& root = "/");

  // Joules since a fixed moment; nullopt where the machine does not report them, or not to this user (the files belong
  // to root on most systems). Must be called more often than the counters overflow, which takes at least a minute.
  std::optional<double> Joules();

 private:
  struct Zone {
    std::string path;  // in the tree
    double range = 0;  // microjoules at which it wraps to 0
    double last = 0;
    double overflown = 0;
  };
  SystemTree tree_;
  std::vector<Zone> zones_;
  bool readable_ = true;
};

}  // namespace roofbench::hardware
