// SPDX-License-Identifier: Apache-2.0
// Follows what else the machine does while a case is sampled.
#pragma once

#include <optional>

#include "lib/device/device.h"

namespace roofbench {

// What the machine did while a case was sampled.
struct MeasuredConditions {
  double stolen_share = 0;  // of the processors' time, taken by the hypervisor
  double others_share = 0;  // and used by other programs
  bool throttled = false;   // slowed down for heat
  // Of a GPU, where its driver tells.
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

  // Between two chunks of samples: what a GPU says of the moment. Costs nothing on a CPU, which keeps counters.
  void Poll();
  MeasuredConditions Finish();

 private:
  void Note(const Conditions& now);
  // The clock and the power, while the device works: as soon as it has nothing to do both fall.
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
