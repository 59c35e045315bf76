// SPDX-License-Identifier: Apache-2.0
// y = silu(gate) · up, element by element: the middle of a SwiGLU block.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: a nominal 6 an element, in fp32 whatever the storage (a negation, an exponential, a sum, a quotient, two
// products); bytes decide: gate and up are read, y is written.
struct SiluMul {
  static constexpr double kFlops = 6;  // an element
  double elements = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
