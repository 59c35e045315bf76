// SPDX-License-Identifier: Apache-2.0
// What of a GPU's settings and state disturbs measurements, as far as its driver tells.
#pragma once

#include <vector>

#include "lib/hardware/machine_facts.h"
#include "lib/hardware/nvml.h"

namespace roofbench::hardware {

// Persistence, the clock at this moment, and why it is not higher.
std::vector<Disturbance> GpuDisturbances(const Nvml& nvml);

}  // namespace roofbench::hardware
