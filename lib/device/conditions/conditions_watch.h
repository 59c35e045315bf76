// SPDX-License-Identifier: Apache-2.0
// Follows what else the machine does while a case is sampled.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lib/device/device.h"

namespace roofbench {

// The state of the machine while a case was sampled.
struct MeasuredConditions {
  double stolen_share = 0;  // share of the processors' time that the hypervisor took
  double others_share = 0;  // share that other programs used
  bool throttled = false;   // slowed down for heat
  // For a GPU whose driver reports them.
  std::optional<bool> power_capped = {};
  // Medians of the readings under load, or the highest ones if there are none.
  std::optional<double> clock_hertz = {};
  std::optional<double> watts = {};
};

class ConditionsWatch {
 public:
  // `other_cpu`: CPU seconds of further processes that belong to the case.
  explicit ConditionsWatch(Device& device, std::function<double()> other_cpu = {});
  ConditionsWatch(const ConditionsWatch&) = delete;
  ConditionsWatch& operator=(const ConditionsWatch&) = delete;
  ~ConditionsWatch();

  // Reads the GPU's state between two chunks of samples. Free on a CPU, which keeps counters.
  void Poll();
  MeasuredConditions Finish();

 private:
  double OwnCpuSeconds() const;
  void Note(const Conditions& now);

  Device& device_;
  const std::function<double()> other_cpu_;
  const Conditions before_;
  const double start_;      // on the host
  const double own_start_;  // processor time
  bool thermal_ = false;
  bool power_capped_ = false;
  // Between the samples clock and power fall, or the clock rises for nothing.
  std::optional<double> clock_hertz_;
  std::optional<double> watts_;
  std::vector<double> loaded_hertz_;
  std::vector<double> loaded_watts_;
};

}  // namespace roofbench
