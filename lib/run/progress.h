// SPDX-License-Identifier: Apache-2.0
// Shows on a terminal which case is running, the number of cases and the remaining time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// "[3/12] matmul/impl:eager/…  35 s left" in at most `width` columns; the name is shortened. Negative seconds: not
// known.
std::string ProgressLine(int number, int cases, const std::string& name, double seconds_left, std::size_t width);

// Rough seconds per case of the plan: its samples, or the minimum number of steps where the roof predicts long ones.
// Only their ratios matter.
std::vector<double> ExpectedSeconds(const std::vector<PlannedCase>& plan, const RunOptions& options,
                                    const workload::Peaks& peaks);

class Progress {
 public:
  Progress(bool visible, std::size_t width) : visible_(visible), width_(width) {}

  // `seconds` of each case, and how often each one runs.
  void Expect(std::vector<double> seconds, int repetitions);

  void Start(std::size_t index, const std::string& name);
  // Also call this for a case that an earlier process finished.
  void Finish(std::size_t index);

 private:
  bool visible_;
  std::size_t width_;
  std::vector<double> expected_;
  int cases_ = 0;
  int ended_ = 0;
  bool running_ = false;
  double left_ = 0;  // of the expected seconds
  double done_ = 0;  // the expected seconds of cases that ran in this process
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace roofbench
