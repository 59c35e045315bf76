// SPDX-License-Identifier: Apache-2.0
// Says on a terminal which case runs, how many there are, and how long it will take.
#pragma once

#include <chrono>
#include <string>

namespace roofbench {

class Progress {
 public:
  Progress(int cases, bool visible) : cases_(cases), visible_(visible) {}

  void Start(const std::string& name);
  void Finish();

 private:
  int cases_;
  bool visible_;
  int done_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace roofbench
