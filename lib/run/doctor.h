// SPDX-License-Identifier: Apache-2.0
// What disturbs measurements on this machine, and how to mend each.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/device.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/nvml.h"
#include "lib/hardware/roofs/candidates.h"

namespace roofbench {

// "36.1 GB/s to 39.8 GB/s over ten seconds"; "unknown" of zeros.
std::string MemorySpeedText(const hardware::RateRange& speed, std::string_view when);

// "12.5 % while the roofs were measured"; "unknown" of nothing.
std::string OtherLoadText(std::optional<double> share);

// What is measured and not read: the load that others make, and how the speed of memory scatters over ten seconds.
// `share` is hardware::OthersShare, `rates` the speed of memory in bytes/s, reading by reading.
std::vector<hardware::Disturbance> MeasuredDisturbances(double others_share, const std::vector<double>& rates);

// What a GPU's driver says, asked through `library`: of clocks, power and persistence. Empty for a processor.
std::vector<hardware::Disturbance> GpuDisturbances(const Device& device,
                                                   const std::string& library = hardware::kNvmlLibrary);

// A line a fact, and under each that disturbs how to mend it.
std::string Report(const std::vector<hardware::Disturbance>& found);

// Looks at the machine, for about eleven seconds, and reports.
std::string Examine(Device& device);

}  // namespace roofbench
