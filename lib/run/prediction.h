// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a step from smaller measured points of the same case.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lib/suite/family.h"
#include "lib/suite/point.h"

namespace roofbench {

// Predictions never come from a roof: an implementation can be a thousand times slower than its roof, and that is when
// a prediction matters most.
class StepTimePredictor {
 public:
  // Builds a point and returns the seconds of one warm step, or an error.
  using PilotRun = std::function<absl::StatusOr<double>(const Point&)>;

  explicit StepTimePredictor(PilotRun pilot_run) : pilot_run_(std::move(pilot_run)) {}

  // Records a measured point.
  void Learn(const Family& family, const Point& point, double seconds);

  // Seconds of a step at `point`, scaled by work from the largest smaller known point. If no known point has at least
  // 1/16 of the work, increasingly large points are timed, each a quarter larger than the last in every size, up to the
  // one predicted to take 100 ms: a tiny point alone would predict its overhead times the work. The first has a
  // sixteenth of every size, or less if that would be much work before any time is known. Returns nullopt if no smaller
  // point could be measured.
  std::optional<double> Predict(const Family& family, const Point& point);

 private:
  struct Known {
    double work;
    double seconds;
  };
  PilotRun pilot_run_;
  std::map<std::string, std::map<double, Known>> known_;  // by the case without its sizes, then by work
};

// Work as used for scaling: operations plus bytes, since either may dominate the time.
double WorkOf(const workload::Cost& cost);

}  // namespace roofbench
