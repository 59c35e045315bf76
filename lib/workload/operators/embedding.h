// SPDX-License-Identifier: Apache-2.0
// Rows of a table by their numbers: what turns tokens into vectors.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// No arithmetic. A token reads its index (int64) and its row, and writes the row; a row that two tokens name counts
// twice.
struct Embedding {
  double vocabulary = 0;  // rows of the table
  double tokens = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
