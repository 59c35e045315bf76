// SPDX-License-Identifier: Apache-2.0
// y = softmax(x), row by row.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: a nominal 5 an element, in fp32 whatever the storage (maximum, difference, exponential, sum, quotient); bytes
// decide: x is read and y written once.
struct Softmax {
  static constexpr double kFlops = 5;          // an element
  static constexpr double kGradientFlops = 4;  // likewise: a product, a sum, a difference, a product
  double rows = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  // Reads y and its gradient; writes that of x.
  Operation Backward() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
