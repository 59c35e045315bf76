// SPDX-License-Identifier: Apache-2.0
// LibTorch's matrix products as probes of a GPU's arithmetic roofs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/roofs/bursts.h"
#include "lib/timing/clock.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// Square products of this precision on `device`, timed by `clock`: name and probe. The first call allocates the
// operands. Empty where LibTorch has no plain product (fp8).
std::vector<std::pair<std::string, hardware::ComputeProbe>> GpuGemmProbes(workload::Dtype dtype, at::Device device,
                                                                          std::shared_ptr<timing::Clock> clock);

}  // namespace roofbench
