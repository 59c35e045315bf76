// SPDX-License-Identifier: Apache-2.0
// Other activity of the machine while a case is sampled.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lib/timing/clock.h"

namespace roofbench::hardware {

// Counters of the machine; the difference of two readings covers the time between them.
struct Conditions {
  double stolen_seconds = 0;   // of the processors, taken by the hypervisor
  double busy_seconds = 0;     // of the processors, used by all programs, this one included
  double throttle_events = 0;  // thermal slowdowns
  // For a GPU whose driver reports them.
  std::optional<double> thermal_seconds = {};    // slowed down for heat
  std::optional<double> power_cap_seconds = {};  // slowed down to keep the power limit
  bool thermal = false;                          // slowed down for heat at this moment
  bool power_capped = false;
  std::optional<double> clock_hertz = {};
  std::optional<double> watts = {};
};

// The counters of the processors that this process may run on.
Conditions ReadProcessorConditions();

// The state of the machine while a case was sampled.
struct MeasuredConditions {
  double stolen_share = 0;  // share of the processors' time that the hypervisor took
  double others_share = 0;  // share that other programs used
  bool throttled = false;   // slowed down for heat
  // Between threads of a processor, in the end (handover.h), and whether it was another one in the beginning.
  std::optional<double> handover_seconds = {};
  bool moved = false;
  // For a GPU whose driver reports them.
  std::optional<bool> power_capped = {};
  // Medians of the readings under load, or the highest ones if there are none.
  std::optional<double> clock_hertz = {};
  std::optional<double> watts = {};
};

// The device that is followed.
struct WatchedDevice {
  timing::Clock& clock;
  std::function<Conditions()> read;
  int processors = 1;         // of the host
  bool is_momentary = false;  // its conditions are of a moment, so that they must be read under load; or counters
  std::function<double()> other_cpu = {};                // CPU seconds of further processes that belong to the case
  std::function<std::optional<double>()> handover = {};  // HandoverSeconds
};

class ConditionsWatch {
 public:
  explicit ConditionsWatch(WatchedDevice device);
  ConditionsWatch(const ConditionsWatch&) = delete;
  ConditionsWatch& operator=(const ConditionsWatch&) = delete;
  ~ConditionsWatch();

  // Reads the GPU's state between two chunks of samples. Free on a CPU, which keeps counters.
  void Poll();
  MeasuredConditions Finish();

 private:
  double OwnCpuSeconds() const;
  void Note(const Conditions& now);

  std::optional<double> Handover() const { return device_.handover ? device_.handover() : std::nullopt; }

  const WatchedDevice device_;
  const std::optional<double> handover_;  // before the others, whose time is not to contain it
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

}  // namespace roofbench::hardware
