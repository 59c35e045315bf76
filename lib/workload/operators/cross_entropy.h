// SPDX-License-Identifier: Apache-2.0
// The loss of a classifier over logits, row by row, alone or with its gradient.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: a nominal 4 an element (maximum, difference, exponential, sum), 6 with the gradient (a product, a difference),
// in fp32 whatever the storage; bytes decide.
struct CrossEntropy {
  double rows = 0;
  double cols = 0;             // classes: the vocabulary
  Dtype dtype = Dtype::kFp32;  // of logits and gradient; losses are fp32, targets int64

  // Reads logits and targets, writes a loss a row.
  Operation Forward() const;
  // The same in one pass with the gradient of the logits, which is written, too.
  Operation ForwardBackward() const;

  Cost ForwardCost() const;
  Cost ForwardBackwardCost() const;
};

}  // namespace roofbench::workload
