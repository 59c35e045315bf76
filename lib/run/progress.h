// SPDX-License-Identifier: Apache-2.0
// Shows which case is running, the number of cases and the remaining time: on a terminal in a line that changes, in a
// log by a line a minute.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// "75 s", "12 min", "3.5 h"
std::string RoughTime(double seconds);

// "12 cases, 3 repetitions each, about 75 s"
std::string PlanText(std::size_t cases, int repetitions, std::size_t left, double seconds);

// "[3/12] matmul/impl:eager/…  35 s left" in at most `width` columns; the name is shortened. Negative seconds: not
// known.
std::string ProgressLine(int number, int cases, const std::string& name, double seconds_left, std::size_t width);

// Rough seconds per case of the plan: its samples, or the minimum number of steps where the roof predicts long ones.
std::vector<double> ExpectedSeconds(const std::vector<PlannedCase>& plan, const RunOptions& options,
                                    const Device& device);

class Progress {
 public:
  using Now = std::function<double()>;  // seconds

  // `on_terminal`: whether `out` is one, `width` columns wide.
  Progress(std::ostream& out, bool on_terminal, std::size_t width, Now now);

  // Shows what happens before the first case, on a terminal; an empty text erases it.
  void Announce(const std::string& stage);

  // `seconds` of each case, and how often each one runs.
  void Expect(std::vector<double> seconds, int repetitions);

  void Start(std::size_t index, const std::string& name);
  // Also call this for a case that an earlier process finished.
  void Finish(std::size_t index);

 private:
  std::ostream& out_;
  const bool on_terminal_;
  const std::size_t width_;
  const Now now_;
  std::vector<double> expected_;
  int cases_ = 0;
  int ended_ = 0;
  bool running_ = false;
  double left_ = 0;   // of the expected seconds
  double done_ = 0;   // the expected seconds of cases that ran in this process
  double begin_;      // when cases began
  double last_line_;  // of a log
};

}  // namespace roofbench
