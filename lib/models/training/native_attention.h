// SPDX-License-Identifier: Apache-2.0
// Causal attention for training on a CPU: rotations by our own kernel, products of all heads at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/models/decoding/rotary_table.h"
#include "lib/models/training/layers.h"

namespace roofbench::models {

// As LayerFunctions::attention. Queries go in blocks, whose scores are made again for backward: what autograd keeps is
// q, k and v. Grouped queries and Attention::kNaive run on LibTorch's operations.
at::Tensor NativeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                           int64_t heads, Attention kind);

}  // namespace roofbench::models
