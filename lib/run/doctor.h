// SPDX-License-Identifier: Apache-2.0
// Reports sources of measurement noise on this machine, and a remedy for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/device.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/nvml.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench {

// "36.1 GB/s to 39.8 GB/s over ten seconds"; "unknown" for zeros.
std::string MemorySpeedText(const hardware::RateRange& speed, std::string_view when);

// "12.5 % while the roofs were measured"; "unknown" for nullopt.
std::string OtherLoadText(std::optional<double> share);

// "other programs use 45.0 % of the processors: end them …"; empty if they use too little to disturb.
std::string BusyText(double others_share);

// Over ten seconds.
struct DoctorReadings {
  std::vector<double> memory_rates = {};  // bytes/s
  std::vector<double> handovers = {};     // seconds, hardware::HandoverSeconds
};

// Disturbances that are measured rather than read from the system: the load of other programs (hardware::OthersShare),
// the places of the threads, and the scatter of memory speed.
std::vector<hardware::Disturbance> MeasuredDisturbances(double others_share, const DoctorReadings& readings);

// Clocks, power and persistence as reported by a GPU's driver through `library`. Empty for a processor.
std::vector<hardware::Disturbance> GpuDisturbances(const Device& device,
                                                   const std::string& library = hardware::kNvmlLibrary);

// One line per fact; each disturbance is followed by its remedy.
std::string Report(const std::vector<hardware::Disturbance>& found);

// Examines the machine for about eleven seconds and returns the report.
std::string Examine(Device& device);

}  // namespace roofbench
