// SPDX-License-Identifier: Apache-2.0
// Operators over rows: norms, softmax and cross entropy. Their FLOPs are nominal, in fp32 whatever the storage: bytes
// decide.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

enum class NormKind { kLayer, kRms };

// An element of a layer norm takes 8 (a sum, a sum of squares, the difference, two products, an addition), of an RMS
// norm 4; their gradients twice that.
constexpr double FlopsPerElement(NormKind kind) { return kind == NormKind::kLayer ? 8 : 4; }

struct Norm {
  NormKind kind = NormKind::kLayer;
  double rows = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;  // of x and y; weight and bias are fp32

  // Reads x, weight and bias; writes y.
  Operation Forward() const;
  // Reads x, dy, the weight and a row's statistics; writes dx and the gradients of weight and bias.
  Operation Backward() const;

  Cost ForwardCost() const { return InOperands(Forward()); }
  Cost BackwardCost() const { return InOperands(Backward()); }

  // LibTorch 2.11's eager version: a forward pass makes a new result while the last one is live. `composed`: an RMS
  // norm made of several operators, on a CPU. For each element it holds in fp32: forward x (a copy, unless it is fp32),
  // x normalized, and that times the weight; backward x normalized, dy times the weight, the difference of both, the
  // subtrahend, and dx before it is rounded.
  Cost EagerForwardCost(bool composed) const;
  Cost EagerBackwardCost(bool composed) const;
};

// y = softmax(x), row by row.
struct Softmax {
  static constexpr double kFlops = 5;          // per element: maximum, difference, exponential, sum, quotient
  static constexpr double kGradientFlops = 4;  // likewise: a product, a sum, a difference, a product
  double rows = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const { return Map(rows * cols, dtype, 1, kFlops); }
  // Reads y and its gradient; writes that of x.
  Operation Backward() const { return Map(rows * cols, dtype, 2, kGradientFlops); }
  Cost ForwardCost() const { return InOperands(Forward()); }
};

// The loss of a classifier over logits, row by row, alone or with its gradient. FLOPs: 4 per element (maximum,
// difference, exponential, sum), 6 with the gradient (a product, a difference).
struct CrossEntropy {
  double rows = 0;
  double cols = 0;             // classes: the vocabulary
  Dtype dtype = Dtype::kFp32;  // of logits and gradient; losses are fp32, targets int64

  // Reads logits and targets, writes one loss per row.
  Operation Forward() const;
  // The same in one pass with the gradient of the logits, which is also written.
  Operation ForwardBackward() const;

  Cost ForwardCost() const { return InOperands(Forward()); }
  Cost ForwardBackwardCost() const { return InOperands(ForwardBackward()); }
  // What LibTorch's operators hold beyond that: the logarithms of the probabilities; with a gradient, also theirs, and
  // a new gradient beside that of the last step.
  double EagerScratchBytes(bool with_gradient) const {
    return (with_gradient ? 3 : 1) * rows * cols * ElementBytes(dtype);
  }
};

}  // namespace roofbench::workload
