// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients in double precision, by their formulas.
#pragma once

#include <vector>

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

// The sampled rows of y.
at::Tensor ReferenceRows(const AttentionOperands& o);

// What each row of y adds up to; undefined where that would take longer than a minute.
at::Tensor ReferenceRowSums(const AttentionOperands& o);

// Of q, k and v. A minute for 4 Gi scores: the sizes of a suite have few of them.
std::vector<at::Tensor> ReferenceGradients(const AttentionOperands& o);

}  // namespace roofbench
