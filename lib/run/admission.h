// SPDX-License-Identifier: Apache-2.0
// Decides whether a case is worth building, from the device's capabilities, free memory and the predicted step time.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/run/prediction.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

class Admission {
 public:
  Admission(const RunOptions& options, Device& device) : options_(options), device_(device) {}

  // Begins a case: makes room for it and reads the free memory.
  void Enter(const Family& family);
  // Returns why the entered case should not be built, or OK. May build and time smaller cases to find out.
  absl::Status Check(const PlannedCase& planned, const workload::Cost& cost);
  // Records the measured step time of a case; later cases are predicted from it.
  void Learn(const PlannedCase& planned, double seconds);

  // Predicted and free bytes, for the reason of a skipped case.
  std::string MemoryNote(const workload::Cost& cost) const;

 private:
  absl::StatusOr<double> PilotRun(const Family& family, const Point& point);
  double MaxStepTime(const Family& family) const;
  StepTimePredictor& PredictorOf(const Family& family);

  const RunOptions& options_;
  Device& device_;
  std::map<std::string, StepTimePredictor> predictors_;
  double free_bytes_ = 0;
};

}  // namespace roofbench
