// SPDX-License-Identifier: Apache-2.0
// What disturbs measurements on this machine, and how to mend each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/hardware/machine_facts.h"

namespace roofbench {

// What is measured and not read: the load that others make, and how the speed of memory scatters over ten seconds.
// `share` is hardware::OthersShare, `rates` the speed of memory in bytes/s, reading by reading.
std::vector<hardware::Disturbance> MeasuredDisturbances(double others_share, const std::vector<double>& rates);

// What a GPU's driver says: of clocks, power and persistence. Empty for a processor.
std::vector<hardware::Disturbance> GpuDisturbances(const Device& device);

// A line a fact, and under each that disturbs how to mend it.
std::string Report(const std::vector<hardware::Disturbance>& found);

// Looks at the machine, for about eleven seconds, and reports.
std::string Examine(Device& device);

}  // namespace roofbench
