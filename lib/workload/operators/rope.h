// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: pairs of elements, turned by angles from a table.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: 3 an element (two products, one sum), in fp32 whatever the storage; bytes decide: x is read and y written
// once, and the fp32 cosines and sines of every position are read once for all heads.
struct Rope {
  static constexpr double kFlops = 3;  // an element
  double heads = 0;
  double tokens = 0;
  double head_dim = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
