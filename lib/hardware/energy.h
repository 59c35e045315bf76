// SPDX-License-Identifier: Apache-2.0
// Joules that the processors have used, where the machine counts them (RAPL: https://docs.kernel.org/power/powercap).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/hardware/system_tree.h"

namespace roofbench::hardware {

// All packages, with memory where it is counted apart, and every program on them.
class EnergyCounter {
 public:
  // `root` replaces "/" for tests.
  explicit EnergyCounter(const std::string& root = "/");

  // Joules since some moment; nullopt where the machine does not tell, or not this user (the files are root's on most
  // systems). Must be called more often than the counters overflow, which takes a minute at the least.
  std::optional<double> Joules();

 private:
  struct Zone {
    std::string path;  // in the tree
    double range = 0;  // microjoules at which it starts anew
    double last = 0;
    double overflown = 0;
  };
  SystemTree tree_;
  std::vector<Zone> zones_;
  bool readable_ = true;
};

}  // namespace roofbench::hardware
