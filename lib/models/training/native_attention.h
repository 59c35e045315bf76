// SPDX-License-Identifier: Apache-2.0
// Causal attention for training on a CPU, by our own kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/models/decoding/rotary_table.h"
#include "lib/models/training/layers.h"

namespace roofbench::models {

// As LayerFunctions::attention. What autograd keeps is q, k, v, the result and a number a query. Attention::kNaive runs
// on LibTorch's operations.
at::Tensor NativeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                           int64_t heads, Attention kind);

}  // namespace roofbench::models
