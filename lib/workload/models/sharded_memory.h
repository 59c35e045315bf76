// SPDX-License-Identifier: Apache-2.0
// The memory of a training step in which each rank has its part of the parameters, gradients and optimizer state, and
// gathers the parameters of a unit while it computes.
#pragma once

#include <vector>

namespace roofbench::workload {

// Bytes of a part of a model whose parameters are used together.
struct StepUnit {
  double parameters = 0;
  double kept = 0;      // by forward for backward
  double computes = 0;  // at most in its backward: what is left of them, its gradients, and gradients between
  double passes = 0;    // of these when its last gradient is complete: those for the unit before
};

// The peak of a rank's step in addition to what it always has of parameters and optimizer state. `units` are in the
// order of forward; the next unit is gathered while one computes, in backward the one before. `loss` is what the loss
// and its gradients hold besides the units' kept bytes.
double ShardedPeak(const std::vector<StepUnit>& units, double ranks, double loss);

}  // namespace roofbench::workload
