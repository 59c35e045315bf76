// SPDX-License-Identifier: Apache-2.0
// LibTorch's matrix products as probes of the arithmetic roof: on processors with matrix units they are faster than
// every vector loop.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/roofs/bursts.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// LibTorch's ways to multiply square matrices of this precision on a CPU: name and probe.
std::vector<std::pair<std::string, hardware::ComputeProbe>> GemmProbes(workload::Dtype dtype);

}  // namespace roofbench
