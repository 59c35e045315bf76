// SPDX-License-Identifier: Apache-2.0
// The memory of training steps that ranks share: each has its part of the parameters, gradients and optimizer state,
// and gathers the parameters of a unit while it computes; or each has all, and gradients are joined in buckets.
#pragma once

#include <cstddef>
#include <vector>

namespace roofbench::workload {

// Bytes of a part of a model whose parameters are used together.
struct StepUnit {
  double parameters = 0;
  double kept = 0;      // by forward for backward
  double computes = 0;  // at most in its backward: what is left of them, its gradients, and gradients between
  double passes = 0;    // of these when its last gradient is complete: those for the unit before
  std::vector<double> gradients = {};  // of each parameter, in the order of forward
  bool at_once = false;                // one operation of backward computes them all
};

// The peak of a rank's step in addition to what it always has of parameters and optimizer state. `units` are in the
// order of forward; the next unit is gathered while one computes, in backward the one before. `loss` is what the loss
// and its gradients hold besides the units' kept bytes.
double ShardedPeak(const std::vector<StepUnit>& units, double ranks, double loss);

// The index of each gradient's bucket, in the order in which backward has them: full with `limit` bytes, of one
// gradient at least.
std::vector<std::size_t> BucketsOf(const std::vector<double>& gradients, double limit);

// The peak of a backward pass, besides parameters and optimizer state, in which the gradients of a bucket are copied
// into one array as soon as the last of them is there.
double BucketedPeak(const std::vector<StepUnit>& units, double limit);

// That after it, in which a rank copies its part of each bucket and releases the rest, one after the other.
double ScatteredPeak(const std::vector<StepUnit>& units, double limit, double ranks);

}  // namespace roofbench::workload
