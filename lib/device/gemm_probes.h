// SPDX-License-Identifier: Apache-2.0
// LibTorch's matrix products as probes of the arithmetic roof: with matrix units they are faster than every vector
// loop.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/roofs/bursts.h"
#include "lib/timing/clock.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// LibTorch's variants of square products of this precision: name and probe.
std::vector<std::pair<std::string, hardware::ComputeProbe>> CpuGemmProbes(workload::Dtype dtype);

// The same on the GPU `device`, timed by `clock`. The first call of a probe allocates the operands. One that fails has
// the rate 0 from then on, and tells `fault` once what failed.
std::vector<std::pair<std::string, hardware::ComputeProbe>> GpuGemmProbes(workload::Dtype dtype, at::Device device,
                                                                          std::shared_ptr<timing::Clock> clock,
                                                                          std::function<void(std::string)> fault);

}  // namespace roofbench
