// SPDX-License-Identifier: Apache-2.0
// Decides whether a case is worth building, from the device's capabilities, free memory and the predicted step time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/cases/point.h"
#include "lib/device/device.h"
#include "lib/results/outcome.h"
#include "lib/run/run_options.h"
#include "lib/suite/family.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Predicts the time of a step from smaller measured points of the same case. Predictions never come from a roof: an
// implementation can be a thousand times slower than its roof, and that is when a prediction matters most.
class StepTimePredictor {
 public:
  // Builds a point and returns the seconds of one warm step, or an error.
  using PilotRun = std::function<absl::StatusOr<double>(const Point&)>;

  explicit StepTimePredictor(PilotRun pilot_run) : pilot_run_(std::move(pilot_run)) {}

  // Records a measured point.
  void Learn(const Family& family, const Point& point, double seconds);

  // Seconds of a step at `point`, on the line through the smallest and the largest known point that are not larger: its
  // intercept is the overhead of a step, which does not grow with the work. Unless the known points show on which side
  // of `limit` (seconds) the step is, smaller points are timed: a tiny one for the overhead, one with a sixteenth of
  // every size, and larger ones until the time is clearly above the overhead, the limit is exceeded, or the full size
  // is near. If the second would be much work before any time is known, both are smaller. Returns nullopt if no point
  // could be measured.
  std::optional<double> Predict(const Family& family, const Point& point, double limit);

  // Forgets the times of pilot runs of such points, so that the next prediction takes them anew.
  void ForgetPilotRuns(const Family& family, const Point& point);

 private:
  PilotRun pilot_run_;
  std::map<std::string, std::set<double>> pilots_;         // of known_, the work of pilot runs
  std::map<std::string, std::map<double, double>> known_;  // seconds, by the case without its sizes, then by work
};

// Work as used for scaling: operations plus bytes, since either may dominate the time.
double WorkOf(const workload::Cost& cost);

// CPU seconds of the calling thread.
double ThreadCpuSeconds();

class Admission {
 public:
  // `thread_cpu` replaces the calling thread's CPU time in tests.
  Admission(const RunOptions& options, Device& device, std::function<double()> thread_cpu = ThreadCpuSeconds)
      : options_(options), device_(device), thread_cpu_(std::move(thread_cpu)) {}

  // Begins a case: makes room for it and reads the free memory.
  void Enter(const Family& family);
  // Returns why the entered case should not be built, or OK. May build and time smaller cases to find out.
  // `sharing`: ranks that share the device's memory, each of which needs that much.
  absl::Status Check(const PlannedCase& planned, const workload::Cost& cost, int64_t sharing = 1);
  // Records the step time of a measured case; later cases are predicted from it. Ignores one that other programs slowed
  // down: pilot runs allow for them.
  void Learn(const PlannedCase& planned, const Outcome& outcome);

  // Predicted and free bytes, for the reason of a skipped case.
  std::string MemoryNote(const workload::Cost& cost) const;

 private:
  absl::StatusOr<double> PilotRun(const Family& family, const Point& point);
  // Seconds of a warm step, as if no other program used the processors.
  double UndisturbedSeconds(const timing::Step& step, std::size_t phases);
  double MaxStepTime(const Family& family) const;
  StepTimePredictor& PredictorOf(const Family& family);

  const RunOptions& options_;
  Device& device_;
  const std::function<double()> thread_cpu_;
  std::map<std::string, StepTimePredictor> predictors_;
  double free_bytes_ = 0;
};

}  // namespace roofbench
