// SPDX-License-Identifier: Apache-2.0
// A step of AdamW over fp32 parameters.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// Bytes decide: an element reads its gradient (4 B) and updates parameter, mean and square in place (12 B, each read
// and written), 28 B of traffic. FLOPs: a nominal 14 an element.
struct AdamW {
  static constexpr double kFlops = 14;  // an element
  double parameters = 0;

  Operation Step() const;
  Cost StepCost() const;
};

}  // namespace roofbench::workload
