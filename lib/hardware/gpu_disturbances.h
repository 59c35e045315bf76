// SPDX-License-Identifier: Apache-2.0
// The settings and states of a GPU that disturb measurements, as far as its driver reports them.
#pragma once

#include <vector>

#include "lib/hardware/machine_facts.h"
#include "lib/hardware/nvml.h"

namespace roofbench::hardware {

// Persistence, the current clock, and the reasons that it is not higher.
std::vector<Disturbance> GpuDisturbances(const Nvml& nvml);

}  // namespace roofbench::hardware
