// SPDX-License-Identifier: Apache-2.0
// The layers of a transformer, and of a perceptron, for training on a CPU: products by oneDNN, attention and the rest
// by our kernels. Each layer is one autograd function that keeps only what backward needs.
#pragma once

#include "lib/models/training/transformer_model.h"

namespace roofbench::models {

// Under autocast each layer takes and returns bf16: a norm rounds its result once, not for each product that reads it,
// and the gradient of the logits is bf16 from the start. The residual stream keeps the parameters' precision. Attention
// keeps q, k, v, the result and one number per query for backward; Attention::kNaive runs LibTorch's operations.
const LayerFunctions& NativeLayers();

// GELU(x [rows, in] · weight [out, in]ᵀ + bias [out]). Backward skips the gradient of an x that does not require it.
at::Tensor NativeLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace roofbench::models
