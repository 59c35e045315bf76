// SPDX-License-Identifier: Apache-2.0
// The activation y = GELU(x), element by element.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: a nominal 8 an element, in fp32 whatever the storage (an error function, two products, an addition); bytes
// decide.
struct Gelu {
  double elements = 0;
  Dtype dtype = Dtype::kFp32;  // of x and y

  // Reads x, writes y.
  Operation Forward() const;
  // Reads x and dy, writes dx.
  Operation Backward() const;

  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
