// Follows what else the machine does while a case is sampled.
#pragma once

#include <optional>

#include "lib/harness/device.h"
#include "lib/harness/outcome.h"

namespace roofbench {

class ConditionsWatch {
 public:
  explicit ConditionsWatch(Device& device);

  // Between two chunks of samples: what a GPU says of the moment. Costs nothing on a CPU, which keeps counters.
  void Poll();
  MeasuredConditions Finish();

 private:
  void Note(const Conditions& now);

  Device& device_;
  const Conditions before_;
  const double start_;      // on the host
  const double own_start_;  // processor time
  bool thermal_ = false;
  bool power_capped_ = false;
  std::optional<double> clock_hertz_;
  std::optional<double> watts_;
};

}  // namespace roofbench
