// SPDX-License-Identifier: Apache-2.0
// Follows what else the machine does while a case is sampled.
#pragma once

#include <optional>

#include "lib/device/device.h"

namespace roofbench {

// The state of the machine while a case was sampled.
struct MeasuredConditions {
  double stolen_share = 0;  // share of the processors' time that the hypervisor took
  double others_share = 0;  // share that other programs used
  bool throttled = false;   // slowed down for heat
  // For a GPU whose driver reports them.
  std::optional<bool> power_capped = {};
  std::optional<double> clock_hertz = {};  // under load: the highest of the readings
  std::optional<double> watts = {};
};

class ConditionsWatch {
 public:
  explicit ConditionsWatch(Device& device);
  ConditionsWatch(const ConditionsWatch&) = delete;
  ConditionsWatch& operator=(const ConditionsWatch&) = delete;
  ~ConditionsWatch();

  // Reads the GPU's state between two chunks of samples. Free on a CPU, which keeps counters.
  void Poll();
  MeasuredConditions Finish();

 private:
  void Note(const Conditions& now);
  // Keeps the highest clock and power, read while the device works: both fall as soon as it is idle.
  void NoteLoad(const Conditions& now);

  Device& device_;
  const Conditions before_;
  const double start_;      // on the host
  const double own_start_;  // processor time
  bool thermal_ = false;
  bool power_capped_ = false;
  std::optional<double> clock_hertz_;
  std::optional<double> watts_;
  bool saw_load_ = false;
};

}  // namespace roofbench
