// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients as a textbook has them: each stage writes to memory what the next one reads.
#pragma once

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

// What the point's pass asks for. Product, scale and mask; softmax; product: each is a phase, and backward, where they
// come in the other order, the same phase again.
void NaiveSteps(AttentionOperands& o, timing::PhaseMarker& marker);

// What a forward pass leaves to a backward one.
at::Tensor NaiveWeights(const AttentionOperands& o);

}  // namespace roofbench
