// SPDX-License-Identifier: Apache-2.0
// y = W · x, the product of token generation: the bytes of the weights are the work.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/weight_format.h"

namespace roofbench::workload {

// FLOPs: 2nk a vector, in the precision that the weights are multiplied in. Bytes: the weights with their scales once,
// x and y.
struct Gemv {
  double n = 0;  // rows of W: outputs
  double k = 0;  // columns
  WeightFormat format = WeightFormat::kFp32;
  double group = 0;  // of int4
  double batch = 1;  // vectors that share the weights

  Operation Forward() const;
  Cost ForwardCost() const;
};

// y[e] = W[e] · x for each of the chosen experts of a mixture: only their weights are read.
struct GatherGemv {
  Gemv expert;
  double chosen = 0;
  double experts = 0;  // that lie in memory

  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
