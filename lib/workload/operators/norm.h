// SPDX-License-Identifier: Apache-2.0
// Normalization of rows: layer norm and RMS norm, forward and backward.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

enum class NormKind { kLayer, kRms };

// Nominal, in fp32 whatever the storage: an element of a layer norm takes 8 (a sum, a sum of squares, the difference,
// two products, an addition), of an RMS norm 4; their gradients twice that.
constexpr double FlopsPerElement(NormKind kind) { return kind == NormKind::kLayer ? 8 : 4; }

// Bytes decide.
struct Norm {
  NormKind kind = NormKind::kLayer;
  double rows = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;  // of x and y; weight and bias are fp32

  // Reads x, weight and bias; writes y.
  Operation Forward() const;
  // Reads x, dy, the weight and a row's statistics; writes dx and the gradients of weight and bias.
  Operation Backward() const;

  Cost ForwardCost() const;
  Cost BackwardCost() const;

  // The same as LibTorch 2.11 does it eagerly: a forward pass makes a new result while the last one is there.
  // `composed`: an RMS norm that has no operator of its own, on a CPU. Of an element it holds in fp32: forward x (a
  // copy, unless it is fp32), x normalized, and that times the weight; backward x normalized, dy times the weight, the
  // difference of both, what is subtracted, and dx before it is rounded.
  Cost EagerForwardCost(bool composed) const;
  Cost EagerBackwardCost(bool composed) const;
};

}  // namespace roofbench::workload
